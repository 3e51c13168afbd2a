/** A request as a whole, parsed: which resource, what is to be done with it, and how the answer is to look. */
import type { Headers, RequestHead } from '../../http/message.ts'
import {
  functionTakesNo,
  invalidPath,
  putWithLimit,
  rootDisabled,
  schemaNotServed,
  unsupportedMethod,
} from '../errors/catalogue.ts'
import { takeCursor } from '../keyset/parameter.ts'
import { type MediaType, parseAccept } from './media.ts'
import { type BodyForm, bodyForm } from './payload.ts'
import { type Preferences, parsePreferences, type TimeZones } from './preferences.ts'
import { parseQuery } from './query.ts'
import { parseRangeHeader, rowsOf } from './range.ts'
import type { ParsedQuery, Range } from './types.ts'

export type Action =
  | { readonly kind: 'openapi'; readonly headersOnly: boolean }
  | { readonly kind: 'options-root' }
  | { readonly kind: 'options'; readonly relation: string }
  | { readonly kind: 'options-function'; readonly name: string; readonly atRoot: boolean }
  | { readonly kind: 'read'; readonly relation: string; readonly headersOnly: boolean }
  | { readonly kind: 'insert' | 'update' | 'put' | 'delete'; readonly relation: string }
  | {
      readonly kind: 'call'
      readonly name: string
      readonly method: 'GET' | 'HEAD' | 'POST'
      /** Whether it is the function that stands at the root. */
      readonly atRoot: boolean
    }

export type ApiRequest = {
  readonly action: Action
  /** How the body is read; undefined where the action takes none. */
  readonly body: BodyForm | undefined
  readonly schema: string
  readonly query: ParsedQuery
  readonly preferences: Preferences
  readonly accept: readonly MediaType[]
  /** Of the root's rows: by `limit`, `offset` and the Range header. */
  readonly range: Range
  /** Of a read that asks for a page by keys; empty for the first one. */
  readonly cursor: string | undefined
}

/** What of the configuration parsing depends on. */
export type RequestRules = {
  readonly schemas: readonly string[]
  /** The function that answers at the root, as schema and name or name alone. */
  readonly rootFunction: string | undefined
  readonly openApiDisabled: boolean
  /** The parameter of cursors; undefined where there are none. */
  readonly keysetParameter?: string | undefined
  /** Those that a request may name; `any` leaves it to Postgres. */
  readonly timeZones: TimeZones
}

function segments(path: string): string[] {
  if (path === '/') return []
  const parts = path.split('/').slice(1)
  // A function may be asked for without a name, and not be found.
  if (parts.includes('') && path !== '/rpc/') throw invalidPath()
  try {
    return parts.map(decodeURIComponent)
  } catch {
    throw invalidPath()
  }
}

/**
 * The one way to write a path: encoded only what has to be. A function that runs before the request may compare it, and must not be
 * passed by who writes it in another way.
 */
export const canonicalPath = (path: string): string => `/${segments(path).map(encodeURIComponent).join('/')}`

type Resource =
  | { kind: 'root' }
  | { kind: 'relation'; name: string }
  | { kind: 'function'; name: string; atRoot: boolean }

function resourceOf(path: string, { rootFunction, openApiDisabled }: RequestRules): Resource {
  const parts = segments(path)
  const [first, second] = parts
  if (first === undefined) {
    if (rootFunction !== undefined) return { kind: 'function', name: rootFunction, atRoot: true }
    if (openApiDisabled) throw rootDisabled()
    return { kind: 'root' }
  }
  if (parts.length === 1) return { kind: 'relation', name: first }
  if (first === 'rpc' && second !== undefined && parts.length === 2) {
    return { kind: 'function', name: second, atRoot: false }
  }
  throw invalidPath()
}

function schemaOf(method: string, headers: Headers, schemas: readonly string[]): string {
  const [standard = 'public'] = schemas
  const isWrite = ['POST', 'PATCH', 'PUT', 'DELETE'].includes(method)
  const profile = isWrite ? headers['content-profile'] : headers['accept-profile']
  if (profile === undefined) return standard
  // Header bytes come as Latin-1; names of schemas are UTF-8.
  const name = Buffer.from(profile, 'latin1').toString('utf8')
  if (schemas.includes(name)) return name
  throw schemaNotServed(name, schemas)
}

function actionOf(method: string, resource: Resource): Action {
  switch (resource.kind) {
    case 'root':
      if (method === 'GET' || method === 'HEAD') return { kind: 'openapi', headersOnly: method === 'HEAD' }
      if (method === 'OPTIONS') return { kind: 'options-root' }
      throw unsupportedMethod(method)
    case 'function': {
      const { name, atRoot } = resource
      if (method === 'GET' || method === 'HEAD' || method === 'POST') return { kind: 'call', name, method, atRoot }
      if (method === 'OPTIONS') return { kind: 'options-function', name, atRoot }
      throw functionTakesNo(method)
    }
    case 'relation': {
      const relation = resource.name
      switch (method) {
        case 'GET':
        case 'HEAD':
          return { kind: 'read', relation, headersOnly: method === 'HEAD' }
        case 'POST':
          return { kind: 'insert', relation }
        case 'PATCH':
          return { kind: 'update', relation }
        case 'PUT':
          return { kind: 'put', relation }
        case 'DELETE':
          return { kind: 'delete', relation }
        case 'OPTIONS':
          return { kind: 'options', relation }
        default:
          throw unsupportedMethod(method)
      }
    }
  }
}

function bodyOf(action: Action, contentType: string | undefined, keysAreNamed: boolean): BodyForm | undefined {
  switch (action.kind) {
    case 'put':
      return bodyForm(contentType, false, false)
    case 'insert':
    case 'update':
      return bodyForm(contentType, false, keysAreNamed)
    case 'call':
      return action.method === 'POST' ? bodyForm(contentType, true, keysAreNamed) : undefined
    default:
      return undefined
  }
}

/** Of several the last counts. */
const atRoot = (numbers: ParsedQuery['limits']): number | undefined =>
  numbers.findLast(({ path }) => path.length === 0)?.value

/** Parses a request; what is wrong with it is said as a RestError, of several faults the first in this order: path, method, schema, query string, range, body's type. */
export function parseRequest(request: RequestHead, rules: RequestRules): ApiRequest {
  const { method, path, headers } = request
  const resource = resourceOf(path, rules)
  const action = actionOf(method, resource)
  const schema = schemaOf(method, headers, rules.schemas)
  const isCallByGet = resource.kind === 'function' && (method === 'GET' || method === 'HEAD')
  const isRead = resource.kind === 'relation' && (method === 'GET' || method === 'HEAD')
  const { query: text, cursor } = takeCursor(request.query, isRead ? rules.keysetParameter : undefined)
  const query = parseQuery(text, isCallByGet)
  const range = rowsOf(
    parseRangeHeader(method === 'GET' ? headers.range : undefined),
    atRoot(query.limits),
    atRoot(query.offsets),
  )
  if (action.kind === 'put' && (range.offset > 0 || range.limit !== undefined)) throw putWithLimit()
  return {
    action,
    body: bodyOf(action, headers['content-type'], query.columns !== undefined),
    schema,
    query,
    preferences: parsePreferences(headers.prefer, rules.timeZones),
    accept: parseAccept(headers.accept),
    range,
    cursor,
  }
}
