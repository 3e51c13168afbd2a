/** Tests `logs --follow` while the API is not available. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { runCommand } from '../testing/cli.ts'

const id = '0198c0de-0000-7000-8000-000000000001'
const database = { id, name: 'shop', status: 'available', ip_allowlist: { rules: [] } }
const entry = (number: number) => ({
  timestamp: `2026-01-31T12:00:0${number}.000Z`,
  level: 'LOG',
  message: `${number}`,
})

test('follow continues after the API was unavailable, and ends once the database is deleted', async () => {
  let reads = 0
  const server = createServer((request, response) => {
    if (!request.url?.includes('/logs')) return void response.end(JSON.stringify([database]))
    reads++
    if (reads === 2) return void response.writeHead(503).end('{"code":503,"message":"the API restarts"}')
    if (reads > 3) return void response.writeHead(404).end('{"code":404,"message":"database not found"}')
    response.end(JSON.stringify({ logs: reads === 1 ? [entry(1)] : [entry(2), entry(1)] }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    const environment = { ESPALIER_API_URL: url, ESPALIER_TOKEN: 't' }
    expect(await runCommand('logs shop -f', { environment })).toEqual({
      code: 3,
      out: '2026-01-31T12:00:01.000Z LOG 1\n2026-01-31T12:00:02.000Z LOG 2\n',
      err: 'the API restarts; trying again\nespalier logs: database not found\n',
    })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}, 60_000)
