/** Converts the API's schemas to form fields, and a filled form to a request body. Pure. */
import { texts } from '../texts.ts'

type Schema = {
  $ref?: string
  type?: string | string[]
  description?: string
  enum?: unknown[]
  anyOf?: Schema[]
  allOf?: Schema[]
  default?: unknown
  minimum?: number
  maximum?: number
  maxLength?: number
  pattern?: string
  writeOnly?: boolean
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
}
export type Description = { components?: { schemas?: Record<string, Schema> } }

/** A number is a string while the user edits it. For a secret, '' keeps the stored value, and null removes it. */
export type FormValue = string | boolean | null | FormObject[] | FormObject
export type FormObject = { [key: string]: FormValue }

type Common = { key: string; label: string; hint: string; isRequired: boolean; initial: string | boolean }
export type FormField = Common &
  (
    | { kind: 'boolean' }
    | { kind: 'number'; least: number | undefined; most: number | undefined; isInteger: boolean }
    | { kind: 'choice'; choices: string[] }
    | { kind: 'text'; most: number | undefined }
    /** A list of strings, one per line. */
    | { kind: 'lines' }
    | { kind: 'secret'; isRemovable: boolean }
    | { kind: 'object'; fields: FormField[] }
    | { kind: 'list'; fields: FormField[] }
  )

const deepest = 6
const secretNames = /(?:api_key|secret|tokens|users)$/

function resolved(schema: Schema, all: Record<string, Schema>): Schema {
  const name = schema.$ref?.split('/').at(-1)
  const target = name !== undefined && Object.hasOwn(all, name) ? all[name] : undefined
  const inner = (schema.anyOf ?? []).find(one => one.type !== 'null')
  const parts = [target, inner, ...(schema.allOf ?? [])].filter(part => part !== undefined)
  const { $ref: _ref, anyOf: _any, allOf: _all, ...own } = schema
  return Object.assign({}, ...parts.map(part => resolved(part, all)), own)
}

const isNullable = ({ type, anyOf = [] }: Schema): boolean =>
  (Array.isArray(type) && type.includes('null')) || anyOf.some(one => one.type === 'null')

/** Returns the label of a key, for example "DB anon role" for `db_anon_role`. */
export function labelOf(key: string): string {
  const { words } = texts.services
  const label = key
    .split('_')
    .map(word => (Object.hasOwn(words, word) ? words[word] : word))
    .join(' ')
  return label.charAt(0).toUpperCase() + label.slice(1)
}

function kindOf(key: string, declared: Schema, schema: Schema, all: Record<string, Schema>, depth: number) {
  const type = [schema.type ?? 'object'].flat().find(one => one !== 'null')
  if (type === 'boolean') return { kind: 'boolean' } as const
  if (type === 'integer' || type === 'number')
    return { kind: 'number', least: schema.minimum, most: schema.maximum, isInteger: type === 'integer' } as const
  if (type === 'array') {
    const item = resolved(schema.items ?? {}, all)
    return item.type === 'string'
      ? ({ kind: 'lines' } as const)
      : ({ kind: 'list', fields: fieldsIn(item, all, depth + 1) } as const)
  }
  if (type === 'object') return { kind: 'object', fields: fieldsIn(schema, all, depth + 1) } as const
  if (schema.writeOnly === true || secretNames.test(key))
    return { kind: 'secret', isRemovable: isNullable(declared) } as const
  if (schema.enum !== undefined)
    return { kind: 'choice', choices: schema.enum.filter(one => typeof one === 'string') } as const
  return { kind: 'text', most: schema.maxLength } as const
}

function fieldsIn(schema: Schema, all: Record<string, Schema>, depth: number): FormField[] {
  if (depth > deepest) return []
  return Object.entries(schema.properties ?? {}).map(([key, declared]) => {
    const own = resolved(declared, all)
    const isRequired = schema.required?.includes(key) === true
    const initial = typeof own.default === 'boolean' ? own.default : String(own.default ?? '')
    const hint = (own.description ?? '').replaceAll('`', '')
    return { key, label: labelOf(key), hint, isRequired, initial, ...kindOf(key, declared, own, all, depth) }
  })
}

/** Returns the form fields of a schema. Returns undefined if the API's description does not contain the schema. */
export function fieldsOf({ components }: Description, name: string): FormField[] | undefined {
  const all = components?.schemas ?? {}
  return Object.hasOwn(all, name) ? fieldsIn(resolved(all[name] ?? {}, all), all, 0) : undefined
}

type PlainObject = Record<string, unknown>
const isObject = (value: unknown): value is PlainObject => typeof value === 'object' && value !== null

/** Returns the initial values of a form: the values that the API returned, or the defaults. */
export function valuesOf(fields: readonly FormField[], stored: unknown): FormObject {
  const from = isObject(stored) ? stored : {}
  const entries = fields.flatMap((field): [string, FormValue][] => {
    const value = from[field.key]
    switch (field.kind) {
      case 'boolean':
        return [[field.key, typeof value === 'boolean' ? value : field.initial === true]]
      case 'secret':
        return [[field.key, '']]
      case 'object':
        return value === undefined && !field.isRequired ? [] : [[field.key, valuesOf(field.fields, value)]]
      case 'list': {
        const items: unknown[] = Array.isArray(value) ? value : field.isRequired ? [{}] : []
        return [[field.key, items.map(item => valuesOf(field.fields, item))]]
      }
      case 'lines':
        return [[field.key, Array.isArray(value) ? value.join('\n') : '']]
      case 'choice': {
        const first = field.isRequired ? (field.choices[0] ?? '') : ''
        return [[field.key, typeof value === 'string' ? value : field.initial === '' ? first : String(field.initial)]]
      }
      default:
        return [[field.key, String(value ?? field.initial)]]
    }
  })
  return Object.fromEntries(entries)
}

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')

/**
 * Returns the request body of a filled form. Omits empty fields: the API then applies the default, or keeps the stored
 * secret.
 */
export function bodyOf(fields: readonly FormField[], values: FormObject): Record<string, unknown> {
  const entries = fields.flatMap((field): [string, unknown][] => {
    const value = values[field.key]
    if (value === undefined) return []
    if (field.kind === 'object') return isObject(value) ? [[field.key, bodyOf(field.fields, value as FormObject)]] : []
    if (field.kind === 'list')
      return Array.isArray(value) ? [[field.key, value.map(item => bodyOf(field.fields, item))]] : []
    if (value === '') return []
    if (field.kind === 'number') return [[field.key, Number(value)]]
    if (field.kind === 'lines') return [[field.key, linesOf(String(value))]]
    return [[field.key, value]]
  })
  return Object.fromEntries(entries)
}
