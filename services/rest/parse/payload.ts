/**
 * Reads a request's body as it arrives: as JSON that Postgres parses, or raw for a function with one unnamed parameter.
 * The service checks only the JSON's keys and shape, and sends the client's bytes to Postgres.
 */

import type { Bytes } from '../../../wire/messages.ts'
import { Pieces } from '../../http/pieces.ts'
import { contentTypeRefused, unevenKeys } from '../errors/catalogue.ts'
import { CsvReader } from './csv.ts'
import { type Fields, FormFieldsReader, FormRecordReader } from './form.ts'
import { JsonScanner, type JsonShape } from './json-scanner.ts'
import { contentTypeName } from './media.ts'

export type JsonPayload = {
  readonly kind: 'json'
  /** JSON text: an object, or an array of objects. */
  readonly json: Bytes | string
  readonly isArray: boolean
  /** The keys that every object has. Undefined if `columns` names the keys. */
  readonly keys: readonly string[] | undefined
  /** For CSV: the JSON keys by column name. */
  readonly csvKeys?: ReadonlyMap<string, string>
}
/** The raw bytes of text/plain, text/xml or application/octet-stream. */
type RawPayload = { readonly kind: 'raw'; readonly type: RawType; readonly bytes: Bytes }
/** The fields of a form, for a function. */
type FormPayload = { readonly kind: 'form'; readonly fields: Fields }
export type Payload = JsonPayload | RawPayload | FormPayload

type RawType = 'text' | 'xml' | 'bytea'

/** How to read a body. The request's head decides this. */
export type BodyForm = {
  readonly type: 'json' | 'csv' | 'form' | RawType
  readonly forFunction: boolean
  /** Whether `columns` names the JSON's keys. If so, the body's own keys are not checked. */
  readonly keysAreNamed: boolean
}

const typesByName: Readonly<Record<string, BodyForm['type']>> = {
  'application/json': 'json',
  'application/vnd.pgrst.object': 'json',
  'application/vnd.pgrst.object+json': 'json',
  'application/vnd.pgrst.array': 'json',
  'application/vnd.pgrst.array+json': 'json',
  'text/csv': 'csv',
  'application/x-www-form-urlencoded': 'form',
  'text/plain': 'text',
  'text/xml': 'xml',
  'application/octet-stream': 'bytea',
}

const isRaw = (type: BodyForm['type']): type is RawType => type === 'text' || type === 'xml' || type === 'bytea'

/** The reader for a body of this Content-Type. RST107 if there is no reader. */
export function bodyForm(contentType: string | undefined, forFunction: boolean, keysAreNamed: boolean): BodyForm {
  const name = contentType === undefined ? 'application/json' : contentTypeName(contentType)
  const type = Object.hasOwn(typesByName, name) ? typesByName[name] : undefined
  if (type === undefined || (isRaw(type) && !forFunction)) {
    throw contentTypeRefused(name)
  }
  return { type, forFunction, keysAreNamed }
}

/** Receives a body as it arrives, and takes ownership of the bytes. */
interface PayloadReader {
  /** How many bytes are retained. */
  readonly bufferedBytes: number
  /** @throws RestError if the body is already invalid */
  push(chunk: Buffer): void
  /** @throws RestError if the body is invalid */
  end(): Payload
}

class RawReader implements PayloadReader {
  readonly #type: RawType
  readonly #bytes = new Pieces()

  constructor(type: RawType) {
    this.#type = type
  }

  get bufferedBytes(): number {
    return this.#bytes.length
  }

  push(chunk: Buffer): void {
    this.#bytes.add(chunk)
  }

  end(): RawPayload {
    return { kind: 'raw', type: this.#type, bytes: this.#bytes.bytes() }
  }
}

const emptyObject: JsonPayload = { kind: 'json', json: '{}', isArray: false, keys: [] }
const emptyList: JsonPayload = { kind: 'json', json: '[]', isArray: true, keys: [] }

class JsonReader implements PayloadReader {
  readonly #form: BodyForm
  readonly #bytes = new Pieces()
  readonly #scanner = new JsonScanner()

  constructor(form: BodyForm) {
    this.#form = form
  }

  get bufferedBytes(): number {
    return this.#bytes.length
  }

  push(chunk: Buffer): void {
    this.#scanner.push(chunk)
    this.#bytes.add(chunk)
  }

  end(): JsonPayload {
    if (this.#form.forFunction && this.#bytes.length === 0)
      return this.#form.keysAreNamed ? { ...emptyObject, keys: undefined } : emptyObject
    return this.#payload(this.#scanner.end())
  }

  #payload({ kind, keys, isUniform }: JsonShape): JsonPayload {
    const complete = { kind: 'json' as const, json: this.#bytes.bytes(), isArray: kind === 'array' }
    // A value that is not an object is treated as a list, and Postgres reports the error.
    if (this.#form.keysAreNamed) return { ...complete, isArray: kind !== 'object', keys: undefined }
    if (!isUniform) throw unevenKeys()
    // A number or string cannot be a row, so no row is written. A function may accept it as its parameter.
    return kind === 'scalar' && !this.#form.forFunction ? emptyList : { ...complete, keys }
  }
}

/** A reader whose result becomes a payload. */
function madeOf<Result>(
  reader: { readonly bufferedBytes: number; push(chunk: Buffer): void; end(): Result },
  payload: (result: Result) => Payload,
): PayloadReader {
  return {
    get bufferedBytes() {
      return reader.bufferedBytes
    },
    push: chunk => reader.push(chunk),
    end: () => payload(reader.end()),
  }
}

export function payloadReader(form: BodyForm): PayloadReader {
  switch (form.type) {
    case 'json':
      return new JsonReader(form)
    case 'csv':
      return madeOf(new CsvReader(), ({ json, keys, isEmpty }) => {
        return { kind: 'json', json, isArray: true, keys: isEmpty ? [] : [...keys.keys()], csvKeys: keys }
      })
    case 'form':
      if (form.forFunction) return madeOf(new FormFieldsReader(), fields => ({ kind: 'form', fields }))
      return madeOf(new FormRecordReader(), ({ json, names }) => ({ kind: 'json', json, isArray: false, keys: names }))
    default:
      return new RawReader(form.type)
  }
}
