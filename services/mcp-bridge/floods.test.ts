/**
 * One caller opens the maximum number of sessions, each with an unread stream. Other callers must still get sessions.
 */
import { request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../testing/client.ts'
import { startTestBridge } from './testing/bridge.ts'

const [greedy, other] = ['a-token-of-somebody-greedy-0123', 'a-token-of-somebody-else-012345']
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })

test('sessions are shared among callers: the largest caller loses the session unused for longest', async () => {
  const bridge = await startTestBridge({
    server: { auth: { type: 'bearer', bearer: { valid_tokens: [greedy, other] } } },
    session: { max_sessions: 8 },
  })
  onTestFinished(() => bridge.stop())
  const begin = async (token: string): Promise<number | Record<string, string>> => {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } }
    const answer = await bridge.post({ jsonrpc: '2.0', id: 1, method: 'initialize', params }, bearer(token))
    return answer.status === 200
      ? { ...bearer(token), 'Mcp-Session-Id': String(answer.headers['mcp-session-id']) }
      : answer.status
  }
  const sessions: Record<string, string>[] = []
  for (let at = 0; at < 8; at++) {
    const headers = await begin(greedy)
    if (typeof headers === 'number') throw new Error(`refused with ${headers}`)
    sessions.push(headers)
  }
  // The first session has an unread stream.
  const path = { host: '127.0.0.1', port: bridge.port, path: '/mcp' }
  const watching = request({ ...path, headers: { ...sessions[0], Accept: 'text/event-stream' } })
  let isOpen = false
  watching.on('response', () => {
    isOpen = true
  })
  watching.on('error', () => {})
  watching.end()
  onTestFinished(() => void watching.destroy())
  await until(() => isOpen)
  expect(await begin(greedy)).toBe(503)
  const own = await begin(other)
  expect(own).toBeTypeOf('object')
  const ping = { jsonrpc: '2.0', id: 2, method: 'ping' }
  const statuses = async () => Promise.all(sessions.map(async headers => (await bridge.post(ping, headers)).status))
  expect(await statuses()).toEqual([200, 404, 200, 200, 200, 200, 200, 200])
  for (let at = 0; at < 3; at++) expect(await begin(other)).toBeTypeOf('object')
  expect((await statuses()).filter(status => status === 200)).toHaveLength(4)
  // Both callers now have the same number of sessions.
  expect([await begin(other), await begin(greedy)]).toEqual([503, 503])
})
