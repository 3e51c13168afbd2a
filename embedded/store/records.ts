/**
 * Content of the store's files, as text inside frames. Every file begins with a header, followed by batches of records:
 * the new state of an object, or its removal. A snapshot ends with the number of its objects.
 */
import { type KindName, kindInfo } from '../../cluster/kinds.ts'
import { isList, isObject, type JsonObject, type JsonValue, listIn } from './json.ts'
import { metadataOf, type ObjectReference } from './objects.ts'

/**
 * The format number of the store's files. It increases with each change that the previous release cannot read: another
 * framing, record or kind (format.test.ts has the list). In every format, a file begins with a short frame (frames.ts).
 * This frame contains a JSON object with the number as `format`, so each release can distinguish a newer format from
 * damage. Format 1 stands for all formats before format.test.ts had a list.
 */
export const format = 3

/** Undamaged content that this release cannot read, because a later release wrote it. The text names the content. */
export class Unknown extends Error {
  override readonly name = 'Unknown'
}
export const unknownRecords = 'records of a type'

/** One committed change. If it has no object, it is a removal. */
export type LogRecord = {
  readonly version: number
  readonly reference: ObjectReference
  readonly object: JsonObject | undefined
}
/** `version` is the store's resourceVersion before the file's first record. */
export type Header = { readonly number: number; readonly version: number }

export const headerPayload = ({ number, version }: Header): Buffer =>
  Buffer.from(JSON.stringify({ format, number, version }))

export const endPayload = (objects: number): Buffer => Buffer.from(JSON.stringify({ end: objects }))

/** @param records the text of each record, from `putText` and `deletionText` */
export const batchPayload = (records: readonly string[]): Buffer => Buffer.from(`[${records.join(',')}]`)

/** @param object the object's JSON */
export const putText = (object: string): string => `{"put":${object}}`
export const deletionText = (version: number, { kind, namespace, name }: ObjectReference): string =>
  JSON.stringify({ version, gone: [kind, namespace, name] })

/** Parses a payload; undefined if it is not JSON. */
function jsonIn(payload: Buffer | undefined): JsonValue | undefined {
  try {
    return payload && JSON.parse(payload.toString())
  } catch {
    return undefined
  }
}

/** The format in a file's first payload; undefined if it has none. */
export function readFormat(payload: Buffer | undefined): number | undefined {
  const value = jsonIn(payload)
  return isObject(value) && Number.isInteger(value.format) ? Number(value.format) : undefined
}

/** @throws Error for a payload that is not the header of a readable format */
export function readHeader(payload: Buffer | undefined): Header & { readonly format: number } {
  const value = jsonIn(payload)
  const stated = readFormat(payload)
  if (isObject(value) && stated !== undefined && stated <= format) {
    const { number, version } = value
    if (typeof number === 'number' && typeof version === 'number') return { number, version, format: stated }
  }
  throw new Error('not the header of a file of the store')
}

/** The number of objects that a snapshot's last frame states. */
export function readEnd(payload: Buffer | undefined): number | undefined {
  const value = jsonIn(payload)
  return isObject(value) && typeof value.end === 'number' ? value.end : undefined
}

/** @throws Unknown for a payload with a part that this release does not know */
export function readBatch(payload: Buffer): LogRecord[] {
  const value = jsonIn(payload)
  if (!isList(value)) throw new Unknown(unknownRecords)
  return value.map(record => {
    if (!isObject(record)) throw new Unknown(unknownRecords)
    return isObject(record.put) ? putRecord(record.put) : deletionRecord(record)
  })
}

function putRecord(object: JsonObject): LogRecord {
  const { namespace = '', name, resourceVersion } = metadataOf(object)
  return { version: Number(resourceVersion), reference: { kind: kindOf(object.kind), namespace, name }, object }
}

function deletionRecord(record: JsonObject): LogRecord {
  const [kind, namespace, name] = listIn(record, 'gone')
  if (typeof record.version !== 'number' || typeof namespace !== 'string' || typeof name !== 'string') {
    throw new Unknown(unknownRecords)
  }
  return { version: record.version, reference: { kind: kindOf(kind), namespace, name }, object: undefined }
}

function kindOf(value: JsonValue | undefined): KindName {
  if (typeof value === 'string' && Object.hasOwn(kindInfo, value)) return value as KindName
  throw new Unknown(typeof value === 'string' ? `objects of the kind ${value}` : unknownRecords)
}
