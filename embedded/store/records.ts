/**
 * What the store's files say, as text inside frames. Every file begins with a header; then come batches of records: an
 * object as it became, or that it is gone. A snapshot ends with the number of its objects.
 */
import { type KindName, kindInfo } from '../../cluster/kinds.ts'
import { isList, isObject, type JsonObject, type JsonValue, listIn } from './json.ts'
import { metadataOf, type ObjectReference } from './objects.ts'

const format = 1

/** One committed change; without an object it is a removal. */
export type LogRecord = {
  readonly version: number
  readonly reference: ObjectReference
  readonly object: JsonObject | undefined
}
/** `version` is the store's resourceVersion before the first record of the file. */
export type Header = { readonly number: number; readonly version: number }

export const headerPayload = ({ number, version }: Header): Buffer =>
  Buffer.from(JSON.stringify({ format, number, version }))

export const endPayload = (objects: number): Buffer => Buffer.from(JSON.stringify({ end: objects }))

/** @param records each as text, from `putText` and `goneText` */
export const batchPayload = (records: readonly string[]): Buffer => Buffer.from(`[${records.join(',')}]`)

/** @param object the object's JSON */
export const putText = (object: string): string => `{"put":${object}}`
export const goneText = (version: number, { kind, namespace, name }: ObjectReference): string =>
  JSON.stringify({ version, gone: [kind, namespace, name] })

/** @throws Error for a payload that is not a header of this format */
export function readHeader(payload: Buffer): Header {
  const value: JsonValue = JSON.parse(payload.toString())
  if (isObject(value) && value.format === format) {
    const { number, version } = value
    if (typeof number === 'number' && typeof version === 'number') return { number, version }
  }
  throw new Error('not written by this version of the store')
}

/** The number of objects that a snapshot's last frame states. */
export function readEnd(payload: Buffer | undefined): number | undefined {
  const value: JsonValue = payload === undefined ? null : JSON.parse(payload.toString())
  return isObject(value) && typeof value.end === 'number' ? value.end : undefined
}

/** @throws Error for a payload that is not a batch */
export function readBatch(payload: Buffer): LogRecord[] {
  const value: JsonValue = JSON.parse(payload.toString())
  if (!isList(value)) throw new Error('not a batch of records')
  return value.map(record => {
    if (!isObject(record)) throw new Error('not a record')
    return isObject(record.put) ? putRecord(record.put) : goneRecord(record)
  })
}

function putRecord(object: JsonObject): LogRecord {
  const { namespace = '', name, resourceVersion } = metadataOf(object)
  return { version: Number(resourceVersion), reference: { kind: kindOf(object.kind), namespace, name }, object }
}

function goneRecord(record: JsonObject): LogRecord {
  const [kind, namespace, name] = listIn(record, 'gone')
  if (typeof record.version !== 'number' || typeof namespace !== 'string' || typeof name !== 'string') {
    throw new Error('not a record')
  }
  return { version: record.version, reference: { kind: kindOf(kind), namespace, name }, object: undefined }
}

function kindOf(value: JsonValue | undefined): KindName {
  if (typeof value === 'string' && Object.hasOwn(kindInfo, value)) return value as KindName
  throw new Error(`kind ${String(value)} is not known`)
}
