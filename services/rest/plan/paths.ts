/** What a query string says, sorted by where it belongs: filters, order and ranges of one node, and by name of those below it. */
import { notEmbedded } from '../errors/catalogue.ts'
import type { At, Filter, LogicTree, OrderTerm, ParsedQuery, SelectItem, SelectRelation } from '../parse/types.ts'

/** What the query string says of one node and, by name, of those below it. */
export type Said = {
  filters: readonly At<Filter>[]
  logic: readonly At<LogicTree>[]
  order: readonly At<readonly OrderTerm[]>[]
  limits: readonly At<number | undefined>[]
  offsets: readonly At<number | undefined>[]
}

export const said = (query: ParsedQuery): Said => ({
  filters: query.filters,
  logic: query.logic,
  order: query.order,
  limits: query.limits,
  offsets: query.offsets,
})

export const here = <T>(list: readonly At<T>[]): T[] =>
  list.flatMap(({ path, value }) => (path.length === 0 ? [value] : []))
const below = <T>(list: readonly At<T>[], names: ReadonlySet<string>): At<T>[] =>
  list.flatMap(({ path, value }) => (names.has(path[0] ?? '') ? [{ path: path.slice(1), value }] : []))

export const saidBelow = (all: Said, name: ReadonlySet<string>): Said => ({
  filters: below(all.filters, name),
  logic: below(all.logic, name),
  order: below(all.order, name),
  limits: below(all.limits, name),
  offsets: below(all.offsets, name),
})

export const childName = ({ alias, name }: SelectRelation) => alias ?? name

/** What paths call an embedding: its alias, and the name of its relation unless that is what another goes by. */
export function pathNames(child: SelectRelation, children: readonly SelectRelation[]): Set<string> {
  const names = new Set([childName(child)])
  const isTaken = children.some(
    other => other !== child && (childName(other) === child.name || other.name === child.name),
  )
  return isTaken ? names : names.add(child.name)
}

/** Whatever is said of a path has to be said of something that is embedded. Of several faults of one kind the last is told, as PostgREST tells it. */
export function checkPaths(all: Said, select: readonly SelectItem[]): void {
  for (const path of pathsInTurn(all)) checkPath(path, select)
}

/** In PostgREST's turn. */
const pathsInTurn = ({ filters, order, limits, offsets, logic }: Said): (readonly string[])[] =>
  [filters.toReversed(), order.toReversed(), limits, offsets, logic.toReversed()].flat().map(({ path }) => path)

/** Embeddings as PostgREST looks at them: each that something is said of moves to the front. */
export function inTurn(all: Said, children: readonly SelectRelation[]): readonly SelectRelation[] {
  let turn = children
  for (const [first] of pathsInTurn(all)) {
    const said = first === undefined ? undefined : turn.find(one => pathNames(one, children).has(first))
    if (said !== undefined && said !== turn[0]) turn = [said, ...turn.filter(one => one !== said)]
  }
  return turn
}

function checkPath(path: readonly string[], select: readonly SelectItem[]): void {
  const [first, ...rest] = path
  if (first === undefined) return
  const children = select.filter(item => item.kind === 'relation')
  const child = children.find(one => pathNames(one, children).has(first))
  if (child === undefined) throw notEmbedded(first)
  checkPath(rest, child.select)
}
