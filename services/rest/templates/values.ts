/**
 * Splits a query string into a template and values. Replaces the values of comparisons and arguments with placeholders.
 * Replaces only values that parser and planner pass on unchanged. Unknown parts stay in the template. Pure.
 */
import { decoded } from '../parse/query.ts'
import { plainOperators } from '../parse/types.ts'

type Shape = {
  /** The query string with placeholders in place of the values. */
  readonly query: string
  /** The values of the placeholders, in order. */
  readonly values: readonly string[]
}

/** The maximum length and the maximum parts of a query string. Longer query strings are planned each time. */
const maximumParts = 32
const maximumLength = 4_000

/**
 * Operators whose operand is the rest of the text and reaches Postgres unchanged. `like` has its own wildcards, so it
 * is excluded.
 */
const verbatim = new RegExp(`^(?:not\\.)?(?:eq|gte?|lte?|match|imatch|isdistinct|${plainOperators.join('|')})\\.`)
/**
 * Names of parameters that are not comparisons. An encoded name may be one of them. Replacing such a value would only
 * create a template that is never reused.
 */
const reserved = /(?:^|\.)(?:select|columns|on_conflict|order|limit|offset|and|or)$|[%+]/

/** The start of a parameter's replaceable value. Undefined if there is none. */
function valueStart(part: string, equals: number, ofFunction: boolean): number | undefined {
  if (equals === -1 || reserved.test(part.slice(0, equals))) return undefined
  const value = part.slice(equals + 1)
  const operator = verbatim.exec(value)?.[0]
  if (operator !== undefined) return equals + 1 + operator.length
  // A value without a dot is not a filter, so it is an argument. An empty value is written without `=`.
  return ofFunction && value !== '' && !decoded(value).includes('.') ? equals + 1 : undefined
}

/** @returns undefined if a template is not worth the effort, or if the query string as a whole has an error */
export function extractValues(
  query: string,
  ofFunction: boolean,
  placeholder: (index: number) => string,
): Shape | undefined {
  if (query === '') return { query, values: [] }
  const parts = query.split('&', maximumParts + 1)
  if (parts.length > maximumParts || query.includes('\0') || query.includes('%00')) return undefined
  const values: string[] = []
  const shaped = parts.map(part => {
    const start = valueStart(part, part.indexOf('='), ofFunction)
    if (start === undefined) return part
    values.push(decoded(part.slice(start)))
    return part.slice(0, start) + placeholder(values.length - 1)
  })
  const text = shaped.join('&')
  return text.length > maximumLength ? undefined : { query: text, values }
}
