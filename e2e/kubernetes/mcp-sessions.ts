/** Clients of the MCP revisions with sessions: the older SDK, and an event stream by `fetch`. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport, StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { Fetch } from '../https-fetch.ts'
import { type Served, serviceOf, ToolError } from '../service-load.ts'

const authorized = (database: Served) => ({
  authorization: `Bearer ${serviceOf(database, 'mcp').mcp_config?.init_tokens}`,
})

/** Whether this is the response to a request of an unknown session. The client then begins another session. */
export const isSessionLost = (error: unknown): boolean => error instanceof StreamableHTTPError && error.code === 404

/**
 * Calls a tool in a session of the bridge. A call with a deleted session fails, and the next call begins another
 * session.
 */
export async function olderClient(database: Served, fetching: Fetch) {
  const open = async () => {
    const client = new Client({ name: 'e2e', version: '1' })
    const requestInit = { headers: authorized(database) }
    const url = new URL(serviceOf(database, 'mcp').uri)
    const transport = new StreamableHTTPClientTransport(url, { fetch: fetching, requestInit })
    // With exactOptionalPropertyTypes, the SDK's own transport does not match its type.
    await client.connect(transport as Transport)
    return client
  }
  let current: Client | undefined = await open()
  return {
    call: async () => {
      current ??= await open()
      try {
        const query = 'SELECT count(*) FROM fruit'
        const answer = await current.callTool({ name: 'query_database', arguments: { query } })
        const text = JSON.stringify(answer.content)
        if (answer.isError) throw new ToolError(text)
        if (!text.includes('20')) throw new Error(text)
      } catch (error) {
        if (isSessionLost(error)) {
          await current?.close().catch(() => {})
          current = undefined
        }
        throw error
      }
    },
    close: async () => current?.close().catch(() => {}),
  }
}

/** An event stream by GET, in a separate session. `ended`: how the stream has ended; undefined while it is open. */
export async function openStream(database: Served, fetching: Fetch) {
  const { uri } = serviceOf(database, 'mcp')
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'e2e', version: '1' } }
  const begun = await fetching(uri, {
    method: 'POST',
    headers: {
      ...authorized(database),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  })
  const session = begun.headers.get('mcp-session-id')
  await begun.text()
  if (begun.status !== 200 || session === null) throw new Error(`initialize: ${begun.status}`)
  const stopping = new AbortController()
  const answer = await fetching(uri, {
    headers: { ...authorized(database), accept: 'text/event-stream', 'mcp-session-id': session },
    signal: stopping.signal,
  })
  if (answer.status !== 200 || answer.body === null) throw new Error(`stream: ${answer.status} ${await answer.text()}`)
  let ended: string | undefined
  const reader = answer.body.getReader()
  const read = async () => {
    try {
      while (!(await reader.read()).done);
      ended = 'closed'
    } catch (error) {
      ended = String(error)
    }
  }
  const reading = read()
  return {
    ended: () => ended,
    close: async () => {
      stopping.abort()
      await reading
    },
  }
}
