/** Forms made from the API's schemas: the fields with their texts and limits, and the body of a filled form. Pure. */
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

/** Numbers are text while they are edited. A secret that is '' keeps the stored one, and null removes it. */
export type FormValue = string | boolean | null | FormObject[] | FormObject
export type FormObject = { [key: string]: FormValue }

type Common = { key: string; label: string; hint: string; isRequired: boolean; initial: string | boolean }
export type FormField = Common &
  (
    | { kind: 'boolean' }
    | { kind: 'number'; least: number | undefined; most: number | undefined; isInteger: boolean }
    | { kind: 'choice'; choices: string[] }
    | { kind: 'text'; most: number | undefined }
    /** A list of texts, one on each line. */
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

/** `db_anon_role` as "DB anon role". */
export function labelOf(key: string): string {
  const { words } = texts.services
  const label = key
    .split('_')
    .map(word => (Object.hasOwn(words, word) ? words[word] : word))
    .join(' ')
  return label.charAt(0).toUpperCase() + label.slice(1)
}

function kindOf(key: string, given: Schema, schema: Schema, all: Record<string, Schema>, depth: number) {
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
    return { kind: 'secret', isRemovable: isNullable(given) } as const
  if (schema.enum !== undefined)
    return { kind: 'choice', choices: schema.enum.filter(one => typeof one === 'string') } as const
  return { kind: 'text', most: schema.maxLength } as const
}

function fieldsIn(schema: Schema, all: Record<string, Schema>, depth: number): FormField[] {
  if (depth > deepest) return []
  return Object.entries(schema.properties ?? {}).map(([key, given]) => {
    const own = resolved(given, all)
    const isRequired = schema.required?.includes(key) === true
    const initial = typeof own.default === 'boolean' ? own.default : String(own.default ?? '')
    const hint = (own.description ?? '').replaceAll('`', '')
    return { key, label: labelOf(key), hint, isRequired, initial, ...kindOf(key, given, own, all, depth) }
  })
}

/** The fields of a schema of the API's description; undefined if the description has no such schema. */
export function fieldsOf({ components }: Description, name: string): FormField[] | undefined {
  const all = components?.schemas ?? {}
  return Object.hasOwn(all, name) ? fieldsIn(resolved(all[name] ?? {}, all), all, 0) : undefined
}

type Given = Record<string, unknown>
const isGiven = (value: unknown): value is Given => typeof value === 'object' && value !== null

/** What a form begins with: the values that the API has returned, otherwise the defaults. */
export function valuesOf(fields: readonly FormField[], given: unknown): FormObject {
  const from = isGiven(given) ? given : {}
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

/** The body that a filled form sends. Empty fields are omitted: the API's default applies, or the stored secret stays. */
export function bodyOf(fields: readonly FormField[], values: FormObject): Record<string, unknown> {
  const entries = fields.flatMap((field): [string, unknown][] => {
    const value = values[field.key]
    if (value === undefined) return []
    if (field.kind === 'object') return isGiven(value) ? [[field.key, bodyOf(field.fields, value as FormObject)]] : []
    if (field.kind === 'list')
      return Array.isArray(value) ? [[field.key, value.map(item => bodyOf(field.fields, item))]] : []
    if (value === '') return []
    if (field.kind === 'number') return [[field.key, Number(value)]]
    if (field.kind === 'lines') return [[field.key, linesOf(String(value))]]
    return [[field.key, value]]
  })
  return Object.fromEntries(entries)
}
