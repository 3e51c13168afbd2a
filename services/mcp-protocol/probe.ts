/** The readiness probe of a tool server. It initializes a session and reads from the database through a tool. */
import { type ProbeResult, probeFault, probeServer, reachable, shownTarget } from '../http/probe.ts'

type Target = { readonly host: string; readonly port: number; readonly isTls: boolean; readonly path: string }
type Message = { readonly result?: { readonly isError?: unknown }; readonly error?: { readonly message?: unknown } }

const protocolVersion = '2025-11-25'
const sessionHeader = 'mcp-session-id'
const clientInfo = { name: 'espalier-ready', version: '1' }
const call = { name: 'query_database', arguments: { query: 'SELECT 1 AS ready' } }

/** Reads a JSON response, or the last event of a stream. */
function messageIn(text: string): Message {
  const line = text.startsWith('{')
    ? text
    : (text
        .match(/^data: ?(.*)$/gm)
        ?.at(-1)
        ?.replace(/^data: ?/, '') ?? '')
  try {
    return Object(JSON.parse(line))
  } catch {
    return {}
  }
}

/** `token`: undefined if the server requires none. Returns whether the server is ready, and a line for the output. */
export async function probeTools(requested: Target, token: string | undefined): Promise<ProbeResult> {
  const target = { ...requested, host: reachable(requested.host) }
  const shown = shownTarget(target, requested.path)
  const headers: Record<string, string> = {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
  }
  const send = (message: object, more: Record<string, string> = {}) =>
    probeServer(target, {
      path: requested.path,
      method: 'POST',
      headers: { ...headers, ...more },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    })
  const notReady = (what: string): ProbeResult => ({ isReady: false, text: `not ready: ${shown} ${what}` })
  try {
    const params = { protocolVersion, capabilities: {}, clientInfo }
    const first = await send({ id: 1, method: 'initialize', params })
    if (first.status !== 200 || messageIn(first.text).result === undefined)
      return notReady(`answers initialize with ${first.status}`)
    const session = first.headers[sessionHeader]
    const inSession = {
      'MCP-Protocol-Version': protocolVersion,
      ...(typeof session === 'string' ? { [sessionHeader]: session } : {}),
    }
    await send({ method: 'notifications/initialized' }, inSession)
    const { status, text } = await send({ id: 2, method: 'tools/call', params: call }, inSession)
    if (typeof session === 'string')
      await probeServer(target, { path: requested.path, method: 'DELETE', headers: { ...headers, ...inSession } })
    const { result } = messageIn(text)
    if (result === undefined) return notReady(`answers tools/call with ${status}`)
    return result.isError === true
      ? notReady(`cannot read from the database`)
      : { isReady: true, text: `ready: ${shown}` }
  } catch (error) {
    return notReady(`cannot be reached (${probeFault(error)})`)
  }
}
