/**
 * Splits a query string into a template and values: the values of comparisons and arguments are replaced by
 * placeholders. Only values that parsing and planning pass on unchanged are replaced; unknown parts stay in the
 * template. Pure.
 */
import { decoded } from '../parse/query.ts'
import { plainOperators } from '../parse/types.ts'

type Shape = {
  /** The query string with placeholders for the values. */
  readonly query: string
  /** Of the placeholders, in order. */
  readonly values: readonly string[]
}

/** Longer query strings, or with more parts, are planned each time. */
const maximumParts = 32
const maximumLength = 4_000

/** Operators whose operand is the rest of the text, and reaches Postgres unchanged; `like` has its own wildcards. */
const verbatim = new RegExp(`^(?:not\\.)?(?:eq|gte?|lte?|match|imatch|isdistinct|${plainOperators.join('|')})\\.`)
/**
 * Names of parameters that are not comparisons; any encoded name may be one of these. Replacing such a value would only
 * create a template that is never reused.
 */
const reserved = /(?:^|\.)(?:select|columns|on_conflict|order|limit|offset|and|or)$|[%+]/

/** The start of a replaceable value in a parameter; undefined if there is none. */
function valueStart(part: string, equals: number, ofFunction: boolean): number | undefined {
  if (equals === -1 || reserved.test(part.slice(0, equals))) return undefined
  const value = part.slice(equals + 1)
  const operator = verbatim.exec(value)?.[0]
  if (operator !== undefined) return equals + 1 + operator.length
  // A value without a dot is not a filter, and so is an argument. An empty one is written without `=`.
  return ofFunction && value !== '' && !decoded(value).includes('.') ? equals + 1 : undefined
}

/** @returns undefined if it is not worth it, or the query string as a whole has an error */
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
