/** A query string as a whole: which parameter is what, and for which resource. */
import { nulInQuery, tooManyParameters } from '../errors/catalogue.ts'
import { RestError } from '../errors/rest-error.ts'
import { commaSeparated, field, jsonPath, name } from './field.ts'
import { filterValue, logicTree } from './filter.ts'
import { parseAll, type Scanner } from './scanner.ts'
import { select } from './select.ts'
import type { At, Field, Filter, LogicTree, OrderTerm, ParsedQuery } from './types.ts'

/** At most so many parameters: each costs a look at all that came before. */
export const maximumParameters = 1_000

/** Percent-encoding and `+` undone; bytes that are no UTF-8 become U+FFFD, as Postgres could not take them. */
function decoded(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text
  if (!spaced.includes('%')) return spaced
  try {
    return decodeURIComponent(spaced)
  } catch {
    const bytes = Buffer.from(spaced, 'utf8').toString('latin1')
    const plain = bytes.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    return Buffer.from(plain, 'latin1').toString('utf8')
  }
}

/** The parameters in order; one without `=` has an empty value. */
export function queryParameters(query: string): [name: string, value: string][] {
  const parts = query.split('&', maximumParameters + 1)
  if (parts.length > maximumParameters) throw tooManyParameters(maximumParameters)
  if (/\0|%00/.test(query)) throw nulInQuery()
  return parts
    .filter(part => part !== '')
    .map(part => {
      const equals = part.indexOf('=')
      return equals === -1 ? [decoded(part), ''] : [decoded(part.slice(0, equals)), decoded(part.slice(equals + 1))]
    })
}

const encoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

function canonical(parameters: readonly (readonly [string, string])[]): string {
  const sorted = [...parameters].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  return sorted.map(([key, value]) => (value === '' ? encoded(key) : `${encoded(key)}=${encoded(value)}`)).join('&')
}

/** A parenthesis too many at the end is let pass: clients of PostgREST write them unnoticed. */
function closed<T>(scanner: Scanner, parser: (scanner: Scanner) => T): T {
  const result = parser(scanner)
  scanner.takes(/\)+/y)
  return result
}

/** `a.b.column->json`: the path of embeddings, then the field. */
function treeField(scanner: Scanner): { path: string[]; field: Field } {
  const names = [name(scanner)]
  while (scanner.skips('.')) names.push(name(scanner))
  const last = names.pop() ?? ''
  return { path: names, field: { name: last, path: jsonPath(scanner) } }
}

/** `a.b` before `.order`, `.limit`, `.and` and their like. */
function treePath(scanner: Scanner): string[] {
  const names = [name(scanner)]
  while (scanner.skips('.')) names.push(name(scanner))
  return names
}

function orderTerm(scanner: Scanner): OrderTerm {
  let target = field(scanner)
  let relation: string | undefined
  if (target.path.length === 0 && scanner.skips('(')) {
    relation = target.name
    target = field(scanner)
    scanner.expects(')')
  }
  let direction: OrderTerm['direction']
  let nulls: OrderTerm['nulls']
  if (scanner.skips('.asc')) direction = 'asc'
  else if (scanner.skips('.desc')) direction = 'desc'
  if (scanner.skips('.nullsfirst')) nulls = 'first'
  else if (scanner.skips('.nullslast')) nulls = 'last'
  if (!scanner.done && !scanner.sees(',')) {
    scanner.fail(direction === undefined ? '"asc", "desc", "nullsfirst" or "nullslast"' : '"nullsfirst" or "nullslast"')
  }
  return { field: target, relation, direction, nulls }
}

/** `prefix.word` as the path of `prefix`; the word alone is the empty path. */
function pathBefore(key: string, word: string): string[] | undefined {
  if (key === word) return []
  if (!key.endsWith(`.${word}`)) return undefined
  return parseAll('tree path', key.slice(0, -word.length - 1), treePath)
}

/** `path.not.and`, of which only the last word has to be there: what is before it, and the operator as a logic tree begins. */
function logicKey(key: string): { prefix: string | undefined; operator: string } | undefined {
  const found = /^(?:(.+)\.)?(and|or)$/s.exec(key)
  if (found === null) return undefined
  const [, before, word = ''] = found
  if (before === 'not') return { prefix: undefined, operator: `not.${word}` }
  if (before?.endsWith('.not')) return { prefix: before.slice(0, -'.not'.length), operator: `not.${word}` }
  return { prefix: before, operator: word }
}

/** A whole number that fits a bigint of Postgres' limits here; anything else is as if it were not there. */
function integer(text: string): number | undefined {
  return /^-?[0-9]{1,15}$/.test(text) ? Number(text) : undefined
}

/** Mutable while it is put together, by this file alone. */
type Draft = {
  -readonly [key in keyof ParsedQuery]: ParsedQuery[key] extends readonly (infer T)[] ? T[] : ParsedQuery[key]
}

/** What a request's query string says; `ofFunction` is a call by GET, where a value that is no filter is a parameter. */
export function parseQuery(query: string, ofFunction: boolean): ParsedQuery {
  const parameters = queryParameters(query)
  const draft: Draft = {
    select: [
      { kind: 'field', field: { name: '*', path: [] }, alias: undefined, cast: undefined, aggregate: undefined },
    ],
    filters: [],
    logic: [],
    order: [],
    limits: [],
    offsets: [],
    columns: undefined,
    onConflict: undefined,
    parameters: [],
    canonical: canonical(parameters),
  }
  for (const [key, value] of parameters) parameter(draft, key, value, ofFunction)
  return draft
}

function parameter(draft: Draft, key: string, value: string, ofFunction: boolean): void {
  switch (key) {
    case 'select':
      if (value !== '') draft.select = parseAll('select parameter', value, scanner => closed(scanner, select))
      return
    case 'columns':
      draft.columns = parseAll('columns parameter', value, scanner => commaSeparated(scanner, name))
      return
    case 'on_conflict':
      draft.onConflict = parseAll('on_conflict parameter', value, scanner => commaSeparated(scanner, name))
      return
  }
  const ordered = pathBefore(key, 'order')
  if (ordered !== undefined) {
    draft.order.push({ path: ordered, value: parseAll('order', value, scanner => commaSeparated(scanner, orderTerm)) })
    return
  }
  const limited = pathBefore(key, 'limit')
  if (limited !== undefined) {
    pushNumber(draft.limits, limited, value)
    return
  }
  const skipped = pathBefore(key, 'offset')
  if (skipped !== undefined) {
    pushNumber(draft.offsets, skipped, value)
    return
  }
  const logic = logicKey(key)
  if (logic !== undefined) {
    draft.logic.push(parseLogic(logic.prefix, logic.operator, value))
    return
  }
  if (ofFunction && !isFilter(value)) {
    draft.parameters.push([key, value])
    return
  }
  draft.filters.push(parseFilter(key, value))
}

function pushNumber(list: At<number>[], path: string[], value: string): void {
  const number = integer(value)
  if (number !== undefined) list.push({ path, value: number })
}

function parseLogic(prefix: string | undefined, operator: string, value: string): At<LogicTree> {
  const path = prefix === undefined ? [] : parseAll('logic path', prefix, treePath)
  return { path, value: parseAll('logic tree', `${operator}${value}`, scanner => closed(scanner, logicTree), value) }
}

function parseFilter(key: string, value: string): At<Filter> {
  const { path, field: target } = parseAll('tree path', key, treeField)
  return { path, value: { field: target, ...parseAll('filter', value, filterValue) } }
}

/** Whether a parameter of a function's GET reads as a filter of its result. */
function isFilter(value: string): boolean {
  try {
    parseAll('filter', value, filterValue)
    return true
  } catch (error) {
    if (error instanceof RestError) return false
    throw error
  }
}
