/** The agent's socket for refused connections, with valid and invalid data. */
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createDenialAgent } from '../denial/denial.ts'
import { createRefuse } from '../denial/refuse.ts'
import { createMetrics } from '../metrics.ts'
import type { RouteTable } from '../table.ts'
import { testCertificate } from '../testing/certificate.ts'
import { errorFields, startupMessage } from '../testing/client.ts'
import { field, headerOf, proxyHeader } from '../testing/proxy-header.ts'
import { received } from '../testing/sockets.ts'
import { serveRefusals } from './refusals.ts'

const certificate = testCertificate('gateway.test')
/** A rule admits 10.0.0.0/8 to port 5432. */
const table: RouteTable = new Map([
  [
    5432,
    {
      label: 'shop',
      target: { namespace: 'n', service: 's', port: 5432 },
      rules: ['10.0.0.0/8'],
      ranges: Uint32Array.of(10 * 2 ** 24, 11 * 2 ** 24 - 1),
    },
  ],
])

let path: string
let admitting: boolean
const unreachable: number[] = []
beforeEach(async () => {
  admitting = true
  const directory = await mkdtemp(join(tmpdir(), 'espalier-refusals-'))
  path = join(directory, 'deny.sock')
  const agent = createDenialAgent({ certificate, now: Date.now })
  const metrics = createMetrics({ routes: () => 1, admitting: () => admitting })
  const logger = pino({ level: 'silent' })
  const refusals = await serveRefusals({
    path,
    table: () => table,
    admitting: () => admitting,
    onUnreachable: port => void unreachable.push(port),
    refuse: createRefuse({ agent, metrics, now: Date.now, logger }),
    logger,
  })
  return async () => {
    await refusals.stop()
    agent.close()
    await rm(directory, { recursive: true })
  }
})

const dial = (): Socket => {
  const socket = connect({ path }).on('error', () => {})
  onTestFinished(() => void socket.destroy())
  return socket
}
const header = (source: string, id: string) => proxyHeader({ source, port: 1, fields: [field(0x05, Buffer.from(id))] })
async function refusalOf(...parts: Buffer[]): Promise<{ C?: string; M?: string } | undefined> {
  const socket = dial()
  for (const part of parts) {
    socket.write(part)
    await new Promise(resolve => setImmediate(resolve))
  }
  return errorFields(await received(socket))
}

test("only the agent's own user may connect", async () => {
  expect((await stat(path)).mode & 0o777).toBe(0o600)
})

describe('the agent reports', () => {
  test.each<[string, string, string, string, RegExp]>([
    ['that no rule admits the client', '192.0.2.1', '5432 denied', '28000', /admits 192\.0\.2\.1$/],
    ['that there are too many connections', '10.0.0.1', '5432 too-many', '53300', /too many connections to shop/],
    ['that the database is not available', '10.0.0.1', '5432 ', '57P03', /not available/],
    [
      'that the database is not available if a rule has just changed',
      '10.0.0.1',
      '5432 denied',
      '57P03',
      /not available/,
    ],
    ['that the control plane is not available', '10.0.0.1', '5432 closed', '57P03', /control plane/],
  ])('%s', async (_what, source, id, code, message) => {
    expect(await refusalOf(header(source, id), startupMessage())).toMatchObject({
      C: code,
      M: expect.stringMatching(message),
    })
  })

  test('unreachable databases, and no other databases', async () => {
    unreachable.length = 0
    for (const id of ['5432 denied', '5432 too-many', '5432 closed'])
      await refusalOf(header('10.0.0.1', id), startupMessage())
    expect(unreachable).toEqual([])
    await refusalOf(header('192.0.2.1', '5432 '), startupMessage())
    expect(unreachable).toEqual([])
    await refusalOf(header('10.0.0.1', '5432 '), startupMessage())
    await refusalOf(header('10.0.0.1', '5432 -'), startupMessage())
    expect(unreachable).toEqual([5432, 5432])
  })

  test('that the control plane is not available, also to a client that no rule admits', async () => {
    admitting = false
    expect(await refusalOf(header('192.0.2.1', '5432 denied'), startupMessage())).toMatchObject({ C: '57P03' })
  })

  test('the same error for any split of the bytes', async () => {
    const bytes = Buffer.concat([header('192.0.2.1', '5432 denied'), startupMessage()])
    const parts = Array.from({ length: bytes.length }, (_, index) => bytes.subarray(index, index + 1))
    expect(await refusalOf(...parts)).toMatchObject({ C: '28000' })
  })
})

test.each<[string, Buffer[]]>([
  ['nothing', []],
  ['no header', [startupMessage()]],
  ['an incomplete header', [header('10.0.0.1', '5432 denied').subarray(0, 20)]],
  ['the LOCAL header of a health check', [headerOf(0x20, 0, Buffer.alloc(0)), startupMessage()]],
  ['a header without a reason', [proxyHeader({ source: '10.0.0.1', port: 5432 }), startupMessage()]],
  ['an unknown reason', [header('10.0.0.1', '5432; drop'), startupMessage()]],
  ['a port without a route', [header('10.0.0.1', '5433 denied'), startupMessage()]],
])('a connection that sends %s is closed without a response within 3 s', async (_what, parts) => {
  const began = performance.now()
  expect(await refusalOf(...parts)).toBe(undefined)
  expect(performance.now() - began).toBeLessThan(3_000)
})
