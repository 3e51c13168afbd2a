/**
 * JSON-RPC 2.0 as MCP uses it: what came, sorted out, and what goes. It promises that everything behind it sees objects whose depth has a bound
 * and in which no name stands that could reach a prototype, and that an id comes back as it came.
 */
import type { Json, JsonObject } from './json.ts'
import { hasRewrittenId, idRule, isMessageId, notUtf8, progressTokenProblem } from './message-text.ts'

export type RequestId = string | number

export type RequestMessage = {
  readonly kind: 'request'
  readonly id: RequestId
  readonly method: string
  readonly params: JsonObject
}
type NotificationMessage = { readonly kind: 'notification'; readonly method: string; readonly params: JsonObject }
/** The client's answer to a request of the server's. */
export type ResponseMessage = {
  readonly kind: 'response'
  readonly id: RequestId
  readonly outcome: { readonly result: JsonObject } | { readonly error: string }
}
/** `code`: Invalid Request or Invalid params. */
export type InvalidMessage = {
  readonly kind: 'invalid'
  readonly id: RequestId | undefined
  readonly code: -32600 | -32602
  readonly problem: string
}
export type Received = RequestMessage | NotificationMessage | ResponseMessage | InvalidMessage

export type Parsed =
  | { readonly kind: 'no JSON'; readonly problem?: string }
  | { readonly kind: 'one'; readonly message: Received }
  | { readonly kind: 'batch'; readonly messages: readonly Received[] }

/** Of objects and arrays in one another. */
const maximumDepth = 64

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What a message says of itself beside its parameters. */
export const metaOf = (params: JsonObject): JsonObject => (isObject(params._meta) ? params._meta : {})

/** What is wrong with the shape of a value, wherever in it. */
export function shapeProblem(value: unknown, depth = 0): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (depth === maximumDepth) return `objects and arrays are nested more than ${maximumDepth} deep`
  if (Array.isArray(value)) {
    for (const one of value) {
      const problem = shapeProblem(one, depth + 1)
      if (problem !== undefined) return problem
    }
    return undefined
  }
  for (const [key, one] of Object.entries(value)) {
    if (key === '__proto__') return 'the name "__proto__" is not allowed'
    const problem = shapeProblem(one, depth + 1)
    if (problem !== undefined) return problem
  }
  return undefined
}

function responseOf({ id, result, error }: JsonObject): Received {
  if (!isMessageId(id)) return { kind: 'invalid', id: undefined, code: -32600, problem: `id must be ${idRule}` }
  if (isObject(result)) return { kind: 'response', id, outcome: { result } }
  const message = isObject(error) ? error.message : undefined
  return { kind: 'response', id, outcome: { error: typeof message === 'string' ? message : 'no reason given' } }
}

function messageOf(value: unknown): Received {
  const invalid = (problem: string, id?: RequestId): Received => ({ kind: 'invalid', id, code: -32600, problem })
  if (!isObject(value)) return invalid('a message must be an object')
  const { jsonrpc, id, method, params } = value
  const known = isMessageId(id) ? id : undefined
  if (jsonrpc !== '2.0') return invalid('jsonrpc must be "2.0"', known)
  const problem = shapeProblem(value)
  if (problem !== undefined) return invalid(problem, known)
  if (method === undefined && ('result' in value || 'error' in value)) return responseOf(value)
  if (typeof method !== 'string') return invalid('method must be a string', known)
  if (id !== undefined && known === undefined) return invalid(`id must be ${idRule}`)
  if (params !== undefined && !isObject(params))
    return { kind: 'invalid', id: known, code: -32602, problem: 'params must be an object' }
  const tokenProblem = isObject(params?._meta) ? progressTokenProblem(params._meta.progressToken) : undefined
  if (tokenProblem !== undefined) return { kind: 'invalid', id: known, code: -32602, problem: tokenProblem }
  return known === undefined
    ? { kind: 'notification', method, params: params ?? {} }
    : { kind: 'request', id: known, method, params: params ?? {} }
}

/** @param text undefined: the bytes were not UTF-8 */
export function parseMessages(text: string | undefined): Parsed {
  if (text === undefined) return { kind: 'no JSON', problem: notUtf8 }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { kind: 'no JSON' }
  }
  if (hasRewrittenId(text))
    return { kind: 'one', message: { kind: 'invalid', id: undefined, code: -32600, problem: `id must be ${idRule}` } }
  return Array.isArray(value)
    ? { kind: 'batch', messages: value.map(messageOf) }
    : { kind: 'one', message: messageOf(value) }
}

/** `result` is JSON already. */
export const resultText = (id: RequestId, result: string): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`

export type RpcError = { readonly code: number; readonly message: string; readonly data?: Json }

/** Without an id where none could be read and the revision wants it so; with null where that is what it wants. */
export const errorText = (id: RequestId | null | undefined, error: RpcError): string =>
  JSON.stringify({ jsonrpc: '2.0', id, error })

/** A notification of the server's, or a request where it has an id. */
export type ServerMessage = { readonly id?: RequestId; readonly method: string; readonly params: JsonObject }

export const messageText = ({ id, method, params }: ServerMessage): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })
