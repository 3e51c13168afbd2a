/** Parses a complete request: the resource, the action, and the response's form. */
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
      /** Whether the function is the root function. */
      readonly atRoot: boolean
    }

export type ApiRequest = {
  readonly action: Action
  /** How the body is read. Undefined if the action has no body. */
  readonly body: BodyForm | undefined
  readonly schema: string
  readonly query: ParsedQuery
  readonly preferences: Preferences
  readonly accept: readonly MediaType[]
  /** The range of the root's rows: from `limit`, `offset` and the Range header. */
  readonly range: Range
  /** The cursor of a read with keyset pagination. Empty for the first page. */
  readonly cursor: string | undefined
}

/** The configuration that the parser needs. */
export type RequestRules = {
  readonly schemas: readonly string[]
  /** The root function: schema and name, or only the name. */
  readonly rootFunction: string | undefined
  readonly openApiDisabled: boolean
  /** The cursor parameter. Undefined if cursors are disabled. */
  readonly keysetParameter?: string | undefined
  /** The time zones that a request may name. `any`: Postgres decides. */
  readonly timeZones: TimeZones
}

function segments(path: string): string[] {
  if (path === '/') return []
  const parts = path.split('/').slice(1)
  // A function without a name is a valid request, but the service does not find the function.
  if (parts.includes('') && path !== '/rpc/') throw invalidPath()
  try {
    return parts.map(decodeURIComponent)
  } catch {
    throw invalidPath()
  }
}

/**
 * The canonical form of a path, with minimal encoding. A pre-request function may compare the path, and another
 * spelling must not bypass it.
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
  // Node reads header bytes as Latin-1. Schema names are UTF-8.
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

/** The last count, if there are several. */
const atRoot = (numbers: ParsedQuery['limits']): number | undefined =>
  numbers.findLast(({ path }) => path.length === 0)?.value

/**
 * Parses a request. @throws RestError for the first error in this order: path, method, schema, query string, range,
 * body's type
 */
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
