/** Parses a query string: decides each parameter's meaning and its resource. */
import { nulInQuery, tooManyParameters } from '../errors/catalogue.ts'
import { dot, field, jsonPath, name, names, spaced } from './field.ts'
import { filterValue, logicTree } from './filter.ts'
import {
  after,
  ahead,
  always,
  atMost,
  attempt,
  before,
  chain,
  choice,
  end,
  list,
  map,
  optional,
  type Parser,
  parse,
  token,
} from './parser.ts'
import { countOf } from './range.ts'
import { maximumSelected, select } from './select.ts'
import type { At, Field, Filter, LogicTree, OrderTerm, ParsedQuery, SelectItem } from './types.ts'

/** The maximum number of parameters. The parser compares each parameter with all earlier ones. */
export const maximumParameters = 1_000

/** Decodes percent-encoding and `+`. Invalid UTF-8 becomes U+FFFD, since Postgres refuses invalid UTF-8. */
export function decoded(text: string): string {
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

type Parameter = [name: string, value: string]

/** The parameters in order. A parameter without `=` has no value. */
export function queryParameters(query: string): [name: string, value: string | undefined][] {
  const parts = query.split('&', maximumParameters + 1)
  if (parts.length > maximumParameters) throw tooManyParameters(maximumParameters)
  if (/\0|%00/.test(query)) throw nulInQuery()
  return parts
    .filter(part => part !== '')
    .map(part => {
      const equals = part.indexOf('=')
      return equals === -1
        ? [decoded(part), undefined]
        : [decoded(part.slice(0, equals)), decoded(part.slice(equals + 1))]
    })
}

export const encoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, one => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

function canonical(parameters: readonly (readonly [string, string | undefined])[]): string {
  const sorted = [...parameters].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  return sorted.map(([key, value]) => `${encoded(key)}=${encoded(value ?? '')}`).join('&')
}

/** `a.b.column->json`: the path of embeddings, then the field. */
const path: Parser<string[]> = list(name, dot)
const treeField: Parser<{ path: string[]; field: Field }> = chain(path, names =>
  map(jsonPath, steps => ({ path: names.slice(0, -1), field: { name: names.at(-1) ?? '', path: steps } })),
)

const termEnd = choice(attempt(ahead(token(','))), attempt(end))
const direction: Parser<OrderTerm['direction']> = optional(
  choice<'asc' | 'desc'>(
    attempt(map(after(dot, token('asc')), () => 'asc')),
    attempt(map(after(dot, token('desc')), () => 'desc')),
  ),
)
const nulls: Parser<OrderTerm['nulls']> = optional(
  choice<'first' | 'last'>(
    attempt(map(after(dot, token('nullsfirst')), () => 'first')),
    attempt(map(after(dot, token('nullslast')), () => 'last')),
  ),
)
const termOf = (relation: string | undefined, target: Field): Parser<OrderTerm> =>
  chain(direction, way =>
    map(before(nulls, termEnd), last => ({ field: target, relation, direction: way, nulls: last })),
  )
const orderTerm: Parser<OrderTerm> = spaced(
  choice(
    attempt(
      chain(name, relation => chain(after(token('('), before(field, token(')'))), target => termOf(relation, target))),
    ),
    chain(field, target => termOf(undefined, target)),
  ),
)
/**
 * Postgres's maximum of sort terms equals its maximum of columns. The parser counts, so each text needs a new parser.
 */
const order = (): Parser<OrderTerm[]> => list(atMost(maximumSelected, 'terms of an order', orderTerm), token(','))

/** A whole number. Other values are ignored. Postgres reports numbers that are too large. */
const integer = (text: string): number | undefined => (/^ *-?[0-9]{1,100} *$/.test(text) ? countOf(text) : undefined)

/** Splits `books.order` into `books` and `order`. The last word may be a keyword. */
function nameParts(key: string): { prefix: string | undefined; last: string } {
  const dotAt = key.lastIndexOf('.')
  return dotAt === -1 ? { prefix: undefined, last: key } : { prefix: key.slice(0, dotAt), last: key.slice(dotAt + 1) }
}

const everything: SelectItem[] = [
  { kind: 'field', field: { name: '*', path: [] }, alias: undefined, cast: undefined, aggregate: undefined },
]
const embeddable = new Set(['order', 'limit', 'offset', 'and', 'or'])
const ownNames = new Set(['select', 'columns', 'on_conflict'])

/**
 * Parses a request's query string. `ofFunction`: the request calls a function by GET, and a value that is not a filter
 * is an argument. Reports the first of several errors in this order: order, logic, columns, select, filters,
 * on_conflict, limits.
 */
export function parseQuery(query: string, ofFunction: boolean): ParsedQuery {
  const all = queryParameters(query)
  const complete = all.filter((one): one is Parameter => one[1] !== undefined)
  const first = (wanted: string) => complete.find(([key]) => key === wanted)?.[1]
  const ending = (...words: string[]) => complete.filter(([key]) => words.includes(nameParts(key).last))
  const ordered = ending('order').map(([key, value]) => parseOrder(key, value))
  const logic = ending('and', 'or').map(([key, value]) => parseLogic(key, value))
  const columns = first('columns')
  const columnNames = columns === undefined ? undefined : parse('columns parameter', columns, names)
  const selected = parse('select parameter', first('select') ?? '*', select)
  const filters: At<Filter>[] = []
  const parameters: [name: string, value: string][] = []
  for (const [key, value] of complete) {
    if (ownNames.has(key) || embeddable.has(nameParts(key).last)) continue
    const found = parseFilter(key, value, ofFunction)
    if ('parameter' in found) parameters.push([found.parameter, value])
    else filters.push(found)
  }
  const conflict = first('on_conflict')
  const onConflict = conflict === undefined ? undefined : parse('on_conflict parameter', conflict, names)
  return {
    select: selected.length === 0 ? everything : selected,
    filters,
    logic,
    order: ordered,
    limits: numbers(ending('limit')),
    offsets: numbers(ending('offset')),
    columns: columnNames,
    onConflict,
    parameters,
    canonical: canonical(all),
  }
}

/** The path of a parameter's resource. */
const pathOf = (key: string): string[] => parse('tree path', key, treeField).path

const parseOrder = (key: string, value: string): At<OrderTerm[]> => ({
  path: pathOf(key),
  value: parse('order', value, order()),
})

function parseLogic(key: string, value: string): At<LogicTree> {
  const found = parse('logic path', key, path)
  const operator = `${found.includes('not') ? 'not.' : ''}${found.at(-1)}`
  const where = found.slice(0, -1).filter(part => part !== 'not')
  return { path: where, value: parse('logic tree', `${operator}${value}`, logicTree, value) }
}

const filterOrNot = choice<Pick<Filter, 'negated' | 'operation'> | undefined>(filterValue, always(undefined))

function parseFilter(key: string, value: string, ofFunction: boolean): At<Filter> | { readonly parameter: string } {
  const { path: where, field: target } = parse('tree path', key, treeField)
  const found = parse('filter', value, ofFunction ? filterOrNot : filterValue)
  return found === undefined ? { parameter: target.name } : { path: where, value: { field: target, ...found } }
}

const numbers = (parameters: readonly Parameter[]): At<number | undefined>[] =>
  parameters.map(([key, text]) => ({ path: pathOf(key), value: integer(text) }))
