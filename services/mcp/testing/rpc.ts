/** A client of the transports in tests: it sends what it is told to, well-formed or not. */
import { Agent } from 'node:http'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import { type Answer, type Asked, ask } from '../../testing/client.ts'

const agent = new Agent({ keepAlive: true })
const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }

type Said = { readonly status: number; readonly headers: Answer['headers']; readonly body: JsonObject }

const asked = (body: string | object, headers: Record<string, string> = {}): Asked => ({
  method: 'POST',
  headers: { ...json, ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
})

/** The last message of an answer: of a stream the response. An answer without a body is as an empty object. */
function lastOf({ text, headers }: Answer): JsonObject {
  const isStream = headers['content-type'] === 'text/event-stream'
  const last = isStream ? (/data: (.*)\n\n$/.exec(text)?.[1] ?? '{}') : text === '' ? '{}' : text
  const value: unknown = JSON.parse(last)
  return isObject(value) ? value : { batch: JSON.stringify(value) }
}

export async function post(port: number, body: string | object, headers: Record<string, string> = {}): Promise<Said> {
  const answer = await ask(port, '/mcp/v1', asked(body, headers), agent)
  return { status: answer.status, headers: answer.headers, body: lastOf(answer) }
}

/** All of an answer, as text. */
export const postForText = (port: number, body: object, headers: Record<string, string> = {}, signal?: AbortSignal) =>
  ask(port, '/mcp/v1', { ...asked(body, headers), ...(signal === undefined ? {} : { signal }) })

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

/** A request of the newest revision with its headers, as a good client makes it. */
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
): Promise<Said> {
  const { body, headers } = modernCall(method, params, options)
  return post(port, body, headers)
}

/** What stands at a path of names in JSON; undefined where the path ends before. */
export const at = (value: unknown, ...path: (string | number)[]): unknown =>
  path.reduce<unknown>((part, key) => {
    if (Array.isArray(part)) return part[Number(key)]
    return isObject(part) ? part[key] : undefined
  }, value)

/** The text that a tool has answered with. */
export const textOf = ({ body }: Said): unknown => at(body, 'result', 'content', 0, 'text')
