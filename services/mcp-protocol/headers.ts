/**
 * HTTP headers that repeat parts of the body, so that proxies can route requests. The body decides. If headers and body
 * differ, proxy and server would interpret the request differently, so the server refuses it.
 */
import type { Headers } from '../http/message.ts'
import { ProtocolError } from './errors.ts'
import type { Json, JsonObject, JsonSchema } from './json.ts'
import { isObject, type RequestMessage } from './json-rpc.ts'

const mismatch = (problem: string) => new ProtocolError({ kind: 'header mismatch', problem })

/**
 * Decodes a header value. `=?base64?...?=` encodes text that HTTP cannot carry. Returns undefined if the base64 is
 * invalid.
 */
function decoded(value: string): string | undefined {
  if (!value.startsWith('=?base64?') || !value.endsWith('?=') || value.length < 11) return value
  const text = value.slice(9, -2)
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text) return undefined
  const plain = bytes.toString('utf8')
  return Buffer.from(plain, 'utf8').equals(bytes) ? plain : undefined
}

const trimmed = (value: string): string => value.replace(/^[ \t]+|[ \t]+$/g, '')

/** By method: the parameter that the header Mcp-Name repeats. */
const namedBy: Record<string, string> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

/** Checks all present headers against the body. The server may still not support the revision. @throws ProtocolError */
export function checkPresentHeaders(headers: Headers, version: string, method: string): void {
  const sentVersion = headers['mcp-protocol-version']
  if (sentVersion !== undefined && trimmed(sentVersion) !== version)
    throw mismatch(`MCP-Protocol-Version must be ${version}, as in the body`)
  const sentMethod = headers['mcp-method']
  if (sentMethod !== undefined && trimmed(sentMethod) !== method)
    throw mismatch('Mcp-Method must be the method in the body')
}

/** Checks that the headers required by this revision are present. @throws ProtocolError */
export function checkRequiredHeaders(headers: Headers, { method, params }: RequestMessage): void {
  if (headers['mcp-protocol-version'] === undefined) throw mismatch('MCP-Protocol-Version is required')
  if (headers['mcp-method'] === undefined) throw mismatch('Mcp-Method is required')
  const key = Object.hasOwn(namedBy, method) ? namedBy[method] : undefined
  if (key === undefined) return
  const sentName = headers['mcp-name']
  if (sentName === undefined) throw mismatch(`Mcp-Name is required with ${method}`)
  if (decoded(trimmed(sentName)) !== params[key]) throw mismatch(`Mcp-Name must be the ${key} in the body`)
}

/** An argument that its schema marks with `x-mcp-header`. */
type HeaderArgument = { readonly header: string; readonly path: readonly string[] }

const compiled = new WeakMap<JsonSchema, readonly HeaderArgument[]>()

/** Searches `properties` only. */
function headerArgumentsIn(schema: JsonObject, path: readonly string[] = []): readonly HeaderArgument[] {
  const { properties } = schema
  if (!isObject(properties)) return []
  return Object.entries(properties).flatMap(([key, part]) => {
    if (!isObject(part)) return []
    const here = [...path, key]
    const header = part['x-mcp-header']
    return typeof header === 'string' ? [{ header, path: here }] : headerArgumentsIn(part, here)
  })
}

const argumentAt = (args: JsonObject, path: readonly string[]): Json | undefined =>
  path.reduce<Json | undefined>(
    (part, key) => (isObject(part) && Object.hasOwn(part, key) ? part[key] : undefined),
    args,
  )

function isSame(sent: string, argument: Json): boolean {
  if (typeof argument === 'number') return sent !== '' && Number(sent) === argument
  return sent === String(argument)
}

/** Checks the headers that repeat tool arguments (`x-mcp-header`). @throws ProtocolError */
export function checkArgumentHeaders(headers: Headers, schema: JsonSchema, args: JsonObject): void {
  const headerArguments = compiled.get(schema) ?? headerArgumentsIn(schema)
  compiled.set(schema, headerArguments)
  for (const { header, path } of headerArguments) {
    const sent = headers[`mcp-param-${header.toLowerCase()}`]
    const argument = argumentAt(args, path)
    const name = path.join('.')
    if (argument === undefined || argument === null) {
      if (sent !== undefined) throw mismatch(`Mcp-Param-${header} repeats an argument that is missing: ${name}`)
      continue
    }
    if (sent === undefined) throw mismatch(`Mcp-Param-${header} is required with the argument ${name}`)
    const plain = decoded(trimmed(sent))
    if (plain === undefined || !isSame(plain, argument))
      throw mismatch(`Mcp-Param-${header} must equal the argument ${name}`)
  }
}
