/**
 * The shape of a query string: what stays of it when the values are taken out that it compares with, or calls a function with. It promises to take out only what parsing and
 * planning hand on as it is, whatever it says; what it does not know stays in the shape. Pure.
 */
import { decoded } from '../parse/query.ts'
import { plainOperators } from '../parse/types.ts'

type Shape = {
  /** The query string, with placeholders for the values. */
  readonly query: string
  /** Of the placeholders, in their order. */
  readonly values: readonly string[]
}

/** What is longer, or has more parts, is planned each time. */
const maximumParts = 32
const maximumLength = 4_000

/** Operators whose operand is all that follows, and reaches Postgres as it is; `like` has wildcards of its own. */
const verbatim = new RegExp(`^(?:not\\.)?(?:eq|gte?|lte?|match|imatch|isdistinct|${plainOperators.join('|')})\\.`)
/** Names of what is no comparison; any name that is encoded may be one of these. To take such a value out all the same would only make its shape one of which nothing is kept. */
const reserved = /(?:^|\.)(?:select|columns|on_conflict|order|limit|offset|and|or)$|[%+]/

/** Where the value of a parameter begins that can be taken out; undefined where there is none. */
function valueStart(part: string, equals: number, ofFunction: boolean): number | undefined {
  if (equals === -1 || reserved.test(part.slice(0, equals))) return undefined
  const value = part.slice(equals + 1)
  const operator = verbatim.exec(value)?.[0]
  if (operator !== undefined) return equals + 1 + operator.length
  // What has no dot is no filter, and so an argument. One that is empty is written without `=`.
  return ofFunction && value !== '' && !decoded(value).includes('.') ? equals + 1 : undefined
}

/** @returns undefined where it would not be worth it, or there is something wrong that is told of the query string as a whole */
export function shapeOf(query: string, ofFunction: boolean, placeholder: (index: number) => string): Shape | undefined {
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
