/**
 * The body of a request: made into JSON that Postgres takes apart, or left raw for a function of one unnamed parameter. The body is read here for its keys and its
 * shape only; what reaches Postgres are the bytes that the client sent.
 */
import { RestError } from '../errors.ts'
import { commonKeys } from './json-keys.ts'
import { contentTypeName } from './media.ts'
import { queryParameters } from './query.ts'

export type JsonPayload = {
  readonly kind: 'json'
  /** JSON text: an object, or an array of objects. */
  readonly json: Buffer | string
  readonly isArray: boolean
  /** The keys that every object has; undefined where `columns` names them and the body was not looked into. */
  readonly keys: readonly string[] | undefined
  /** Whether it came as CSV. */
  readonly isCsv: boolean
}
/** Raw bytes, of text/plain, text/xml or application/octet-stream. */
export type RawPayload = { readonly kind: 'raw'; readonly type: 'text' | 'xml' | 'bytea'; readonly bytes: Buffer }
/** The fields of a form, for a function. */
export type FormPayload = { readonly kind: 'form'; readonly fields: readonly (readonly [string, string])[] }
export type Payload = JsonPayload | RawPayload | FormPayload

/** How deep JSON may nest. Postgres takes apart JSON by recursion, within the limit of its stack. */
export const maximumJsonDepth = 500

const invalidBody = (message: string, details: string | null = null) =>
  new RestError({ status: 400, code: 'RST102', message, details })

/** Refuses what nests deeper than Postgres could follow. A byte of a string can be no bracket, unless the string began before it. */
function checkDepth(body: Buffer): void {
  let depth = 0
  let inString = false
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]
    if (inString) {
      if (byte === 0x5c) at++
      else if (byte === 0x22) inString = false
    } else if (byte === 0x22) inString = true
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maximumJsonDepth)
        throw invalidBody('Empty or invalid json', `JSON nests at most ${maximumJsonDepth} deep`)
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw invalidBody('Empty or invalid json')
  }
}

/** Refuses a body that is no JSON: for where Postgres has found that, since its values are not looked at here. */
export function checkJson({ json }: JsonPayload): void {
  parsed(Buffer.from(json))
}

function jsonPayload(body: Buffer, forFunction: boolean): JsonPayload {
  const common = commonKeys(body, maximumJsonDepth - 2)
  if (common !== undefined) return { kind: 'json', json: body, isArray: true, keys: common, isCsv: false }
  checkDepth(body)
  const value = parsed(body)
  if (!Array.isArray(value)) {
    if (isObject(value)) return { kind: 'json', json: body, isArray: false, keys: Object.keys(value), isCsv: false }
    // No row for a relation; a function may have a parameter for it.
    return forFunction
      ? { kind: 'json', json: body, isArray: false, keys: [], isCsv: false }
      : { kind: 'json', json: '[]', isArray: true, keys: [], isCsv: false }
  }
  const [first] = value
  if (value.length === 0) return { kind: 'json', json: body, isArray: true, keys: [], isCsv: false }
  const keys = isObject(first) ? Object.keys(first) : undefined
  const matches = (one: unknown) =>
    isObject(one) &&
    keys !== undefined &&
    Object.keys(one).length === keys.length &&
    keys.every(key => Object.hasOwn(one, key))
  if (keys === undefined || !value.every(matches)) throw invalidBody('All object keys must match')
  return { kind: 'json', json: body, isArray: true, keys, isCsv: false }
}

/** A quoted field of CSV from its opening quote on; a quote inside is written twice. */
function quotedField(text: string, opening: number): { field: string; end: number } {
  let field = ''
  for (let from = opening + 1; ; ) {
    const quote = text.indexOf('"', from)
    if (quote === -1) throw invalidBody('A quoted field of CSV does not end')
    field += text.slice(from, quote)
    if (text[quote + 1] !== '"') return { field, end: quote + 1 }
    field += '"'
    from = quote + 2
  }
}

/** The records of CSV (RFC 4180). By hand: a pattern would keep a state for each character of a field. */
function csvRecords(text: string): string[][] {
  const records: string[][] = []
  let record: string[] = []
  const separator = /[,\r\n]/g
  for (let at = 0; at < text.length; ) {
    if (text[at] === '"') {
      const { field, end } = quotedField(text, at)
      record.push(field)
      at = end
    } else {
      separator.lastIndex = at
      const end = separator.exec(text)?.index ?? text.length
      record.push(text.slice(at, end))
      at = end
    }
    if (text[at] === ',') {
      at++
      if (at === text.length) record.push('')
      else continue
    }
    if (at < text.length && text[at] !== '\r' && text[at] !== '\n') {
      throw invalidBody('A quoted field of CSV is followed by more than a comma')
    }
    at += text.startsWith('\r\n', at) ? 2 : 1
    records.push(record)
    record = []
  }
  return records
}

function csvPayload(body: Buffer): JsonPayload {
  const [header, ...records] = csvRecords(body.toString('utf8'))
  if (header === undefined) throw invalidBody('Empty or invalid csv')
  if (records.some(record => record.length !== header.length)) {
    throw invalidBody('All lines must have same number of fields')
  }
  const rows = records.map(record =>
    Object.fromEntries(header.map((name, index) => [name, record[index] === 'NULL' ? null : record[index]])),
  )
  const keys = [...new Set(header)]
  return { kind: 'json', json: JSON.stringify(rows), isArray: true, keys, isCsv: true }
}

export type PayloadRequest = {
  body: Buffer
  contentType: string | undefined
  forFunction: boolean
  /** Whether `columns` names the keys, so that the body need not be looked into. */
  keysAreNamed: boolean
}

/** What a body is, by its Content-Type; one that nothing can be made of is RST102, an unknown type RST107. */
export function parsePayload({ body, contentType, forFunction, keysAreNamed }: PayloadRequest): Payload {
  const type = contentType === undefined ? 'application/json' : contentTypeName(contentType)
  switch (type) {
    case 'application/json':
    case 'application/vnd.pgrst.object':
    case 'application/vnd.pgrst.object+json':
    case 'application/vnd.pgrst.array':
    case 'application/vnd.pgrst.array+json': {
      if (forFunction && body.length === 0) return { kind: 'json', json: '{}', isArray: false, keys: [], isCsv: false }
      if (!keysAreNamed) return jsonPayload(body, forFunction)
      checkDepth(body)
      const isArray = /^\s*\[/.test(body.subarray(0, 64).toString('latin1'))
      return { kind: 'json', json: body, isArray, keys: undefined, isCsv: false }
    }
    case 'text/csv':
      return csvPayload(body)
    case 'application/x-www-form-urlencoded': {
      const fields = queryParameters(body.toString('utf8'))
      if (forFunction) return { kind: 'form', fields }
      const record = Object.fromEntries(fields)
      return {
        kind: 'json',
        json: JSON.stringify(record),
        isArray: false,
        keys: Object.keys(record),
        isCsv: false,
      }
    }
    case 'text/plain':
      if (forFunction) return { kind: 'raw', type: 'text', bytes: body }
      break
    case 'text/xml':
      if (forFunction) return { kind: 'raw', type: 'xml', bytes: body }
      break
    case 'application/octet-stream':
      if (forFunction) return { kind: 'raw', type: 'bytea', bytes: body }
      break
  }
  throw new RestError({ status: 415, code: 'RST107', message: `Content-Type not acceptable: ${type}` })
}
