/** A client of the transports for tests. It sends any text, well-formed or not. */
import { Agent } from 'node:http'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import { type Answer, sendRequest, type TestRequest } from '../../testing/client.ts'

const agent = new Agent({ keepAlive: true })
const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }

type RpcAnswer = { readonly status: number; readonly headers: Answer['headers']; readonly body: JsonObject }

const requestOf = (body: string | object, headers: Record<string, string> = {}): TestRequest => ({
  method: 'POST',
  headers: { ...json, ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
})

/**
 * The last message of a response body. In a stream, this is the JSON-RPC response. For an empty body, an empty object.
 */
function lastOf({ text, headers }: Answer): JsonObject {
  const isStream = headers['content-type'] === 'text/event-stream'
  const last = isStream ? (/data: (.*)\n\n$/.exec(text)?.[1] ?? '{}') : text === '' ? '{}' : text
  const value: unknown = JSON.parse(last)
  return isObject(value) ? value : { batch: JSON.stringify(value) }
}

export async function post(
  port: number,
  body: string | object,
  headers: Record<string, string> = {},
): Promise<RpcAnswer> {
  const answer = await sendRequest(port, '/mcp/v1', requestOf(body, headers), agent)
  return { status: answer.status, headers: answer.headers, body: lastOf(answer) }
}

/** The complete response body, as text. */
export const postForText = (port: number, body: object, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  sendRequest(port, '/mcp/v1', { ...requestOf(body, headers), ...(signal === undefined ? {} : { signal }) })

export const call = (method: string, params: JsonObject = {}, id: string | number = 1): JsonObject => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})

const version = '2026-07-28'
const allCapabilities = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: {},
  extensions: { 'io.modelcontextprotocol/tasks': {} },
}

export type ModernOptions = {
  readonly id?: string | number
  readonly capabilities?: JsonObject
  readonly meta?: JsonObject
  readonly headers?: Record<string, string>
}

/** A request of the newest revision with its headers, as a correct client sends it. */
export function modernCall(
  method: string,
  params: JsonObject = {},
  { id = 1, capabilities = allCapabilities, meta = {}, headers = {} }: ModernOptions = {},
): { readonly body: JsonObject; readonly headers: Record<string, string> } {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    ...meta,
  }
  const named = params.name ?? params.uri ?? params.taskId
  return {
    body: call(method, { ...params, _meta }, id),
    headers: {
      'MCP-Protocol-Version': version,
      'Mcp-Method': method,
      ...(typeof named === 'string' ? { 'Mcp-Name': named } : {}),
      ...headers,
    },
  }
}

export function modern(
  port: number,
  method: string,
  params: JsonObject = {},
  options: ModernOptions = {},
): Promise<RpcAnswer> {
  const { body, headers } = modernCall(method, params, options)
  return post(port, body, headers)
}

/** The value at a path of names in JSON; undefined if it does not exist. */
export const at = (value: unknown, ...path: (string | number)[]): unknown =>
  path.reduce<unknown>((part, key) => {
    if (Array.isArray(part)) return part[Number(key)]
    return isObject(part) ? part[key] : undefined
  }, value)

/** The text of a tool's result. */
export const textOf = ({ body }: RpcAnswer): unknown => at(body, 'result', 'content', 0, 'text')
