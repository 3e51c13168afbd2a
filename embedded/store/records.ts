/**
 * What the store's files say, as text inside frames. Every file begins with a header; then come batches of records: an
 * object as it became, or that it is gone. A snapshot ends with the number of its objects.
 */
import { type KindName, kindInfo } from '../../cluster/kinds.ts'
import { isList, isObject, type JsonObject, type JsonValue, listIn } from './json.ts'
import { metadataOf, type ObjectReference } from './objects.ts'

/**
 * The number of what the files say and how. It goes up with everything that the release before cannot read: another
 * framing, another record, another kind (the list stands in format.test.ts). Whatever changes, every file goes on to
 * begin with a short frame (frames.ts) of a JSON object that has this number as `format`: so each release tells what it
 * is too old for from what is damaged. 1 was every format before there was such a list.
 */
export const format = 3

/** What is sound and cannot be read all the same, as a message names it: a later release has written it. */
export class Unknown extends Error {
  override readonly name = 'Unknown'
}
export const unknownRecords = 'records of a sort'

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

/** What a payload says; undefined where it is no JSON. */
function jsonIn(payload: Buffer | undefined): JsonValue | undefined {
  try {
    return payload && JSON.parse(payload.toString())
  } catch {
    return undefined
  }
}

/** The format that a file's first payload states; undefined where it states none. */
export function readFormat(payload: Buffer | undefined): number | undefined {
  const value = jsonIn(payload)
  return isObject(value) && Number.isInteger(value.format) ? Number(value.format) : undefined
}

/** @throws Error for a payload that is not the header of a format that can be read */
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

/** @throws Unknown for a payload of which any part is not known here */
export function readBatch(payload: Buffer): LogRecord[] {
  const value = jsonIn(payload)
  if (!isList(value)) throw new Unknown(unknownRecords)
  return value.map(record => {
    if (!isObject(record)) throw new Unknown(unknownRecords)
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
    throw new Unknown(unknownRecords)
  }
  return { version: record.version, reference: { kind: kindOf(kind), namespace, name }, object: undefined }
}

function kindOf(value: JsonValue | undefined): KindName {
  if (typeof value === 'string' && Object.hasOwn(kindInfo, value)) return value as KindName
  throw new Unknown(typeof value === 'string' ? `objects of the kind ${value}` : unknownRecords)
}
