/**
 * Headers of HTTP that repeat what the body says, so that whatever stands between can route by them. The body decides; a request whose headers say
 * anything else is refused, or two on its way would take it for different things.
 */
import type { Headers } from '../http/message.ts'
import { ProtocolError } from './errors.ts'
import type { Json, JsonObject, JsonSchema } from './json.ts'
import { isObject, type RequestMessage } from './json-rpc.ts'

const mismatch = (problem: string) => new ProtocolError({ kind: 'header mismatch', problem })

/** A value that HTTP does not carry as it is: base64 between marks. undefined where it is marked and is none. */
function decoded(value: string): string | undefined {
  if (!value.startsWith('=?base64?') || !value.endsWith('?=') || value.length < 11) return value
  const text = value.slice(9, -2)
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text) return undefined
  const plain = bytes.toString('utf8')
  return Buffer.from(plain, 'utf8').equals(bytes) ? plain : undefined
}

const trimmed = (value: string): string => value.replace(/^[ \t]+|[ \t]+$/g, '')

/** The parameter that Mcp-Name repeats. */
const namedBy: Record<string, string> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

/** Before the revision is known to be ours: what contradicts the body. @throws ProtocolError */
export function checkSaid(headers: Headers, version: string, method: string): void {
  const said = headers['mcp-protocol-version']
  if (said !== undefined && trimmed(said) !== version)
    throw mismatch(`MCP-Protocol-Version must be ${version}, as in the body`)
  const saidMethod = headers['mcp-method']
  if (saidMethod !== undefined && trimmed(saidMethod) !== method)
    throw mismatch('Mcp-Method must be the method of the body')
}

/** What this revision wants there to be. @throws ProtocolError */
export function checkRequired(headers: Headers, { method, params }: RequestMessage): void {
  if (headers['mcp-protocol-version'] === undefined) throw mismatch('MCP-Protocol-Version is required')
  if (headers['mcp-method'] === undefined) throw mismatch('Mcp-Method is required')
  const key = Object.hasOwn(namedBy, method) ? namedBy[method] : undefined
  if (key === undefined) return
  const said = headers['mcp-name']
  if (said === undefined) throw mismatch(`Mcp-Name is required with ${method}`)
  if (decoded(trimmed(said)) !== params[key]) throw mismatch(`Mcp-Name must be the ${key} of the body`)
}

/** An argument that is to be repeated in a header. */
type Marked = { readonly header: string; readonly path: readonly string[] }

const compiled = new WeakMap<JsonSchema, readonly Marked[]>()

/** Reached through `properties` only. */
function markedIn(schema: JsonObject, path: readonly string[] = []): readonly Marked[] {
  const { properties } = schema
  if (!isObject(properties)) return []
  return Object.entries(properties).flatMap(([key, part]) => {
    if (!isObject(part)) return []
    const here = [...path, key]
    const header = part['x-mcp-header']
    return typeof header === 'string' ? [{ header, path: here }] : markedIn(part, here)
  })
}

const argumentAt = (args: JsonObject, path: readonly string[]): Json | undefined =>
  path.reduce<Json | undefined>(
    (part, key) => (isObject(part) && Object.hasOwn(part, key) ? part[key] : undefined),
    args,
  )

function isSame(said: string, argument: Json): boolean {
  if (typeof argument === 'number') return said !== '' && Number(said) === argument
  return said === String(argument)
}

/** Arguments of a tool that its schema wants repeated. @throws ProtocolError */
export function checkArguments(headers: Headers, schema: JsonSchema, args: JsonObject): void {
  const marked = compiled.get(schema) ?? markedIn(schema)
  compiled.set(schema, marked)
  for (const { header, path } of marked) {
    const said = headers[`mcp-param-${header.toLowerCase()}`]
    const argument = argumentAt(args, path)
    const name = path.join('.')
    if (argument === undefined || argument === null) {
      if (said !== undefined) throw mismatch(`Mcp-Param-${header} repeats an argument that is not there: ${name}`)
      continue
    }
    if (said === undefined) throw mismatch(`Mcp-Param-${header} is required with the argument ${name}`)
    const plain = decoded(trimmed(said))
    if (plain === undefined || !isSame(plain, argument))
      throw mismatch(`Mcp-Param-${header} must be the argument ${name}`)
  }
}
