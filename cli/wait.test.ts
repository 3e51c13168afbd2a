/** Tests `--wait` with APIs that stream changes, and with APIs that do not. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { parseEvents } from './api/events.ts'
import { runCommand } from './testing/cli.ts'

const refresh = 'retry: 2000\nevent: refresh\ndata: {}\n\n'
const change = (kind: string, id: string): string =>
  `event: change\ndata: ${JSON.stringify({ kind, id, database_id: 'd-1', status: 'x' })}\n\n`

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

type Api = {
  /** The status of the database. */
  status: string
  message: string
  /** The header `Prefer` of each read of the database. */
  reads: (string | undefined)[]
  onRead: (count: number) => void
  url: string
}

/**
 * Starts an API with one database. `events` handles `GET /events`. After 50 ms, a read with `Prefer` returns the status
 * `suspended`.
 */
async function startApi(events: (request: IncomingMessage, response: ServerResponse, api: Api) => void): Promise<Api> {
  const api: Api = { status: 'suspending', message: 'stopping Postgres', reads: [], onRead: () => {}, url: '' }
  const database = () => ({ id: 'd-1', name: 'shop', status: api.status, ip_allowlist: { rules: [] } })
  const task = () => ({
    ...{ id: 't-1', created_at: '2026-01-01T00:00:00Z', subject_kind: 'database', subject_id: 'd-1', name: 'suspend' },
    ...{ messages: [{ text: api.message }], status: 'running' },
  })
  server = createServer((request, response) => {
    const path = String(request.url).replace('/managed/v1', '').replace(/\?.*/, '')
    if (path === '/events') return events(request, response, api)
    const prefer = request.headers.prefer?.toString()
    if (path === '/databases/d-1') api.reads.push(prefer)
    if (path === '/databases/d-1') setTimeout(() => api.onRead(api.reads.length), 50)
    const answer = () =>
      response.end(JSON.stringify(path === '/databases' ? [database()] : path === '/tasks' ? [task()] : database()))
    if (prefer === undefined || request.method === 'POST') answer()
    else
      setTimeout(() => {
        api.status = 'suspended'
        answer()
      }, 50)
  })
  await new Promise<void>(resolve => server?.listen(0, '127.0.0.1', resolve))
  api.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return api
}

const suspend = ({ url }: Api) =>
  runCommand('suspend shop --wait', { environment: { ESPALIER_API_URL: url, ESPALIER_TOKEN: 'a' } })

test('the stream of changes triggers the reads, and no read is a long poll', async () => {
  const api = await startApi((_, response, state) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(refresh)
    // The second read follows `refresh`. The third read follows the task's change.
    state.onRead = count => {
      if (count === 2) {
        state.message = 'releasing the volume'
        response.write(`${change('database', 'other')}: \n\n${change('task', 't-1').slice(0, 20)}`)
        setTimeout(() => response.write(change('task', 't-1').slice(20)), 50)
      }
      if (count === 3) {
        state.status = 'suspended'
        response.write(change('database', 'd-1'))
      }
    }
  })
  expect(await suspend(api)).toEqual({
    code: 0,
    out: 'shop is suspended\n',
    err: 'shop is suspending: stopping Postgres\nshop is suspending: releasing the volume\n',
  })
  // The four reads: at the start, after `refresh`, after the message, and at the end.
  expect(api.reads).toEqual([undefined, undefined, undefined, undefined])
})

test.each<[string, Parameters<typeof startApi>[0]]>([
  ['that has no stream', (_, response) => void response.writeHead(404).end()],
  ['that refuses another stream (429)', (_, response) => void response.writeHead(429, { 'retry-after': '5' }).end()],
  ['whose stream ends at once', (_, response) => void response.end()],
  ['whose stream breaks', request => request.socket.destroy()],
  ['whose stream is delayed by a proxy', (_, response) => response.writeHead(200).flushHeaders()],
  ['whose event has no end', (_, response) => void response.writeHead(200).write(`event: ${'x'.repeat(70_000)}`)],
])('uses long polls with an API %s', async (_, events) => {
  const api = await startApi(events)
  expect(await suspend(api)).toMatchObject({ code: 0, out: 'shop is suspended\n' })
  expect(api.reads).toEqual([undefined, 'wait=5'])
})

test('splits events at empty lines, and returns the incomplete rest', () => {
  expect(
    parseEvents('retry: 2000\nevent: refresh\ndata: {}\n\n: \n\nevent: change\ndata: {"a": 1}\n\nevent: cha'),
  ).toEqual({
    events: [
      { name: 'refresh', data: '{}' },
      { name: '', data: '' },
      { name: 'change', data: '{"a": 1}' },
    ],
    rest: 'event: cha',
  })
})

test('a 404 of a proxy is not the end of a deletion', async () => {
  let reads = 0
  server = createServer((request, response) => {
    const path = String(request.url).replace('/managed/v1', '').replace(/\?.*/, '')
    const database = { id: 'd-1', name: 'shop', status: 'deleting', ip_allowlist: { rules: [] } }
    if (path === '/events') return response.writeHead(404).end()
    if (path === '/tasks') return response.end('[]')
    if (request.method === 'DELETE') return response.writeHead(204).end()
    if (path === '/databases') return response.end(JSON.stringify([database]))
    reads++
    if (reads > 1) return response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>default backend - 404</h1>')
    return response.end(JSON.stringify(database))
  })
  await new Promise<void>(resolve => server?.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const environment = { ESPALIER_API_URL: url, ESPALIER_TOKEN: 'a' }
  const { code, out } = await runCommand('db delete shop --yes --wait', { environment })
  expect({ code, out }).toEqual({ code: 1, out: '' })
})
