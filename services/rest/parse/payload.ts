/**
 * The body of a request while it comes: made into JSON that Postgres takes apart, or left raw for a function of one unnamed parameter. Of JSON no more is looked for here
 * than its keys and its shape; what reaches Postgres are the bytes that the client sent.
 */

import { Pieces } from '../../http/pieces.ts'
import type { Bytes } from '../../postgres/messages.ts'
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
  /** The keys that every object has; undefined where `columns` names them. */
  readonly keys: readonly string[] | undefined
  /** Of what came as CSV: by a column's name its key in the JSON. */
  readonly csvKeys?: ReadonlyMap<string, string>
}
/** Raw bytes, of text/plain, text/xml or application/octet-stream. */
type RawPayload = { readonly kind: 'raw'; readonly type: RawType; readonly bytes: Bytes }
/** The fields of a form, for a function. */
type FormPayload = { readonly kind: 'form'; readonly fields: Fields }
export type Payload = JsonPayload | RawPayload | FormPayload

type RawType = 'text' | 'xml' | 'bytea'

/** How a body is to be read; known before it comes. */
export type BodyForm = {
  readonly type: 'json' | 'csv' | 'form' | RawType
  readonly forFunction: boolean
  /** Whether `columns` names the keys of JSON, so that those of the body do not matter. */
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

/** How a body of this Content-Type is read; RST107 where it is not. */
export function bodyForm(contentType: string | undefined, forFunction: boolean, keysAreNamed: boolean): BodyForm {
  const name = contentType === undefined ? 'application/json' : contentTypeName(contentType)
  const type = Object.hasOwn(typesByName, name) ? typesByName[name] : undefined
  if (type === undefined || (isRaw(type) && !forFunction)) {
    throw contentTypeRefused(name)
  }
  return { type, forFunction, keysAreNamed }
}

/** Takes a body as it comes. The bytes become its own. */
interface PayloadReader {
  /** How many bytes it holds. */
  readonly held: number
  /** @throws RestError of what nothing can be made of, whatever follows */
  push(chunk: Buffer): void
  /** @throws RestError of what nothing can be made of */
  end(): Payload
}

class RawReader implements PayloadReader {
  readonly #type: RawType
  readonly #bytes = new Pieces()

  constructor(type: RawType) {
    this.#type = type
  }

  get held(): number {
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

  get held(): number {
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
    const whole = { kind: 'json' as const, json: this.#bytes.bytes(), isArray: kind === 'array' }
    // What is no object is taken for a list, and Postgres says what it is not.
    if (this.#form.keysAreNamed) return { ...whole, isArray: kind !== 'object', keys: undefined }
    if (!isUniform) throw unevenKeys()
    // A value that is no object is no row for a relation; a function may have a parameter for it.
    return kind === 'scalar' && !this.#form.forFunction ? emptyList : { ...whole, keys }
  }
}

/** A reader whose result becomes a payload. */
function madeOf<Result>(
  reader: { readonly held: number; push(chunk: Buffer): void; end(): Result },
  payload: (result: Result) => Payload,
): PayloadReader {
  return {
    get held() {
      return reader.held
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
