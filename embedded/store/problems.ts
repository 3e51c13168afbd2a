/**
 * Field errors in the API server's words: `<path>: <what>: <value>: <detail>`. So code that matches a cluster's
 * messages also works with the store.
 */
import { isList, isObject, type JsonValue } from './json.ts'

/** One violated rule. If `blocking`, rules across fields cannot be checked. */
export type Problem = { readonly text: string; readonly blocking: boolean }

const quoted = (value: JsonValue): string => JSON.stringify(value)
const path = (at: string): string => (at === '' ? '<nil>' : at)

export const required = (at: string, detail = ''): Problem => ({
  text: `${path(at)}: Required value${detail === '' ? '' : `: ${detail}`}`,
  blocking: true,
})
export const invalid = (at: string, value: JsonValue, detail: string): Problem => ({
  text:
    isList(value) || isObject(value)
      ? `${path(at)}: Invalid value: ${detail}`
      : `${path(at)}: Invalid value: ${quoted(value)}: ${detail}`,
  blocking: false,
})
export const forbidden = (at: string, detail: string): Problem => ({
  text: `${path(at)}: Forbidden: ${detail}`,
  blocking: false,
})
export const duplicate = (at: string, value: JsonValue): Problem => ({
  text: `${path(at)}: Duplicate value: ${quoted(value)}`,
  blocking: false,
})
export const unsupported = (at: string, value: JsonValue, supported: readonly JsonValue[]): Problem => ({
  text: `${path(at)}: Unsupported value: ${quoted(value)}: supported values: ${supported.map(quoted).join(', ')}`,
  blocking: true,
})
export const tooLong = (at: string, most: number, unit = 'bytes'): Problem => ({
  text: `${path(at)}: Too long: may not be more than ${most} ${unit}`,
  blocking: true,
})
export const tooMany = (at: string, actual: number, most: number): Problem => ({
  text: `${path(at)}: Too many: ${actual}: must have at most ${most} items`,
  blocking: true,
})

/** The type of a JSON value, as named in its schema. */
export function typeOf(value: JsonValue): string {
  if (value === null) return 'null'
  if (isList(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

export const wrongType = (at: string, value: JsonValue, wanted: string): Problem => ({
  text: `${path(at)}: Invalid value: "${typeOf(value)}": ${path(at)} in body must be of type ${wanted}: "${typeOf(value)}"`,
  blocking: true,
})
