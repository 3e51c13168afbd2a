/**
 * Sends arbitrary input in all revisions. Every answer must have the id of its own request. No message may cause an
 * internal error.
 */
import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../testing/client.ts'
import { fixtureCore } from '../testing/fixture-core.ts'
import { type Fixture, sealingKey, startFixture } from '../testing/fixture-server.ts'
import { at, modernCall, post } from '../testing/rpc.ts'
import { createTransports } from './index.ts'
import { serveStdio } from './stdio.ts'

let fixture: Fixture
const escaped: unknown[] = []
const note = (error: unknown) => escaped.push(error)
beforeAll(async () => {
  process.on('unhandledRejection', note)
  fixture = await startFixture()
})
afterAll(async () => {
  await fixture?.stop()
  process.off('unhandledRejection', note)
  expect(escaped).toEqual([])
})

const methods = [
  ...['initialize', 'ping', 'tools/list', 'tools/call', 'resources/list', 'resources/read', 'prompts/get', 'nothing'],
  ...['completion/complete', 'logging/setLevel', 'resources/subscribe', 'server/discover', 'tasks/get', 'tasks/update'],
  ...['tasks/cancel', 'notifications/cancelled', 'notifications/initialized', '', 'toString', '__proto__'],
]
/** The fixture's tools, without the slow tools. */
const names = [
  ...['greet', 'test_simple_text', 'test_region', 'json_schema_2020_12_tool', 'test_missing_capability', 'constructor'],
  ...['test_input_required_result_multi_round', 'test_input_required_result_capabilities', 'test_error_handling', ''],
]
const keys = [
  ...['name', 'arguments', 'uri', 'cursor', '_meta', 'inputResponses', 'requestState', 'taskId', 'ref', 'argument'],
  ...['level', 'protocolVersion', 'capabilities', 'region', 'query', '__proto__', 'constructor', 'progressToken'],
  ...['io.modelcontextprotocol/protocolVersion', 'io.modelcontextprotocol/clientCapabilities', 'espalier.dev/caller'],
]
const texts = [...names, '2026-07-28', '2025-11-25', 'test://static-text', 'v1.AAAA', 'debug', 'ref/prompt']

const value: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>(tie => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>(...texts, null, true, 0, -1.5, 1e308),
    fc.string({ maxLength: 20 }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...keys), fc.string({ maxLength: 8 })), tie('value'), { maxKeys: 5 }),
  ),
})).value

const id = fc.oneof(fc.integer(), fc.string({ maxLength: 20 }), fc.double({ noNaN: true, noDefaultInfinity: true }))
const params = fc.dictionary(fc.constantFrom(...keys), value, { maxKeys: 5 })
const near = fc.record(
  {
    jsonrpc: fc.constantFrom<unknown>('2.0', '2.0', '2.0', '1.0', 2),
    id: fc.oneof({ weight: 5, arbitrary: id }, value),
    method: fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...methods) }, value),
    params: fc.oneof({ weight: 5, arbitrary: params }, value),
  },
  { requiredKeys: ['method'] },
)
/** A correct message with some parts replaced. */
const mutated = fc
  .tuple(fc.constantFrom(...methods), fc.constantFrom(...names), params, id)
  .map(
    ([method, name, changed, own]) =>
      modernCall(method, { name, arguments: { name: 'x' }, ...(changed as object) }, { id: own }).body,
  )
const message = fc.oneof(near, mutated, value, fc.array(near, { maxLength: 3 }))

const headers = fc.record(
  {
    'MCP-Protocol-Version': fc.constantFrom('2026-07-28', '2025-11-25', '2024-11-05', '9', 'v999', ''),
    'Mcp-Method': fc.constantFrom('tools/call', 'tools/list', ''),
    'Mcp-Name': fc.constantFrom('greet', 'test_region', '=?base64?Z3JlZXQ=?=', '=?base64?'),
    'Mcp-Param-Region': fc.constantFrom('x', '=?base64?eA==?='),
    Accept: fc.constantFrom('application/json', 'text/event-stream', '*/*'),
    'Mcp-Session-Id': fc.constant('x'),
  },
  { requiredKeys: [] },
)

const isId = (given: unknown): boolean =>
  typeof given === 'string' || (typeof given === 'number' && Number.isFinite(given))

/** Checks that the answer is well-formed. Checks that it has the request's id, if the request has one. */
function check(sent: unknown, answer: unknown): void {
  if (Object.keys(answer as object).length === 0 || at(answer, 'batch') !== undefined) return
  expect(at(answer, 'jsonrpc')).toBe('2.0')
  expect((at(answer, 'result') === undefined) !== (at(answer, 'error') === undefined)).toBe(true)
  const sentId = at(sent, 'id')
  const receivedId = at(answer, 'id')
  if (receivedId !== undefined && receivedId !== null) expect(receivedId).toEqual(sentId)
  if (at(answer, 'result') !== undefined) expect(receivedId).toEqual(sentId)
}

/** Returns the value that the server receives. JSON changes some values: negative zero becomes zero. */
const onTheWay = (sent: unknown): unknown => JSON.parse(JSON.stringify(sent) ?? 'null')

test('the server answers any message over HTTP', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(message, headers), { minLength: 1, maxLength: 10 }), async list => {
      await Promise.all(
        list.map(async ([sent, more]) => {
          const { status, body } = await post(fixture.port, JSON.stringify(sent) ?? '', more)
          expect(status, JSON.stringify(body)).toBeLessThan(500)
          check(onTheWay(sent), body)
        }),
      )
    }),
    { numRuns: Number(process.env.ESPALIER_FUZZ_RUNS ?? 150) },
  )
  expect(fixture.log.filter(line => !line.includes('is of no business'))).toEqual([])
})

test('the server answers any bytes over HTTP', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.json().map(text => text.slice(1)),
      ),
      headers,
      async (text, more) => {
        const { status } = await post(fixture.port, text, more)
        expect(status).toBeLessThan(500)
      },
    ),
    { numRuns: 60 },
  )
})

test('the server answers any message over standard input and output', { timeout: 60_000 }, async () => {
  const logger = { error: note, warn: note }
  await fc.assert(
    fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 10 }), async list => {
      const [input, output] = [new PassThrough(), new PassThrough()]
      const transports = createTransports({ core: fixtureCore(), logger, sealingKey, taskDelayMs: 20 })
      const ended = serveStdio({ transports, input, output, maximumLineBytes: 100_000, graceMs: 50 })
      let text = ''
      output.on('data', chunk => {
        text += chunk
      })
      for (const sent of list) input.write(`${JSON.stringify(sent)}\n`)
      input.write('{"jsonrpc":"2.0","id":"the last","method":"nothing"}\n')
      await until(() => text.includes('"the last"'))
      input.end()
      await ended
      transports.modern.close()
      const sentIds = new Set(
        list
          .flatMap(sent => [sent, ...(Array.isArray(sent) ? sent : [])])
          .map(sent => JSON.stringify(at(onTheWay(sent), 'id'))),
      )
      for (const line of text.trim().split('\n')) {
        const answers: unknown = JSON.parse(line)
        for (const answer of Array.isArray(answers) ? answers : [answers]) {
          const receivedId = at(answer, 'id')
          if (isId(receivedId) && receivedId !== 'the last' && at(answer, 'method') === undefined)
            expect(sentIds.has(JSON.stringify(receivedId)), line).toBe(true)
        }
      }
    }),
    { numRuns: 60 },
  )
})
