/** What a query string says, sorted by where it belongs: filters, order and ranges of one node, and by name of those below it. */
// @ts-nocheck

import { notEmbedded } from '../errors/catalogue.ts'
import type { At, Filter, LogicTree, OrderTerm, ParsedQuery, SelectRelation } from '../parse/types.ts'

/** What the query string says of one node and, by name, of those below it. */
export type Said = {
  filters: readonly At<Filter>[]
  logic: readonly At<LogicTree>[]
  order: readonly At<readonly OrderTerm[]>[]
  limits: readonly At<number>[]
  offsets: readonly At<number>[]
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

/** Whatever is said of a path has to be said of something that is embedded. */
export function checkPaths(all: Said, children: readonly SelectRelation[]): void {
  const names = new Set(children.flatMap(child => [...pathNames(child, children)]))
  for (const list of [all.filters, all.logic, all.order, all.limits, all.offsets]) {
    for (const { path } of list) {
      const [first] = path
      if (first !== undefined && !names.has(first)) throw notEmbedded(first)
    }
  }
}
