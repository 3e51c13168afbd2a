/**
 * Derives from foreign keys what requests can embed. This includes the keys of tables, the same keys through views that
 * have their columns, and many-to-many relationships from two keys of one table. Pure. Works on object ids and
 * attribute numbers, and adds names only at the end.
 */

import type { Cardinality, ColumnPair, QualifiedName, Relationship } from './types.ts'
import type { ColumnOrigin } from './view-columns.ts'

export type RelationFacts = QualifiedName & {
  oid: number
  isView: boolean
  /** The names by attribute number. */
  columnNames: ReadonlyMap<number, string>
  /** The attribute numbers. */
  primaryKey: readonly number[]
}

export type ForeignKey = {
  name: string
  source: number
  target: number
  sourceColumns: readonly number[]
  targetColumns: readonly number[]
  isUnique: boolean
}

/** A relation with some columns of a table: the table itself, or a view. `columns` is in the requested order. */
type Showing = { relation: number; columns: number[] }

/** The maximum variants of one key through one view. Without it, a view that repeats columns would multiply them. */
const maximumWays = 16

/** The view columns by their table column, also through views of views. */
export function resolveOrigins(
  origins: ReadonlyMap<number, readonly ColumnOrigin[]>,
): Map<number, Map<string, number[]>> {
  const resolved = new Map<number, Map<string, number[]>>()
  const resolve = (view: number, underway: ReadonlySet<number>): Map<string, number[]> => {
    const known = resolved.get(view)
    if (known !== undefined) return known
    const shown = new Map<string, number[]>()
    const show = (key: string, column: number) => shown.set(key, [...(shown.get(key) ?? []), column])
    for (const { column, relation, relationColumn } of origins.get(view) ?? []) {
      show(`${relation}.${relationColumn}`, column)
      if (!origins.has(relation) || underway.has(relation)) continue
      for (const [key, columns] of resolve(relation, new Set([...underway, relation]))) {
        if (columns.includes(relationColumn)) show(key, column)
      }
    }
    resolved.set(view, shown)
    return shown
  }
  for (const view of origins.keys()) resolve(view, new Set([view]))
  return resolved
}

const key = (oid: number, column: number) => `${oid}.${column}`

/** Every combination of one element from each list. */
function combinations(lists: readonly (readonly number[])[]): number[][] {
  let all: number[][] = [[]]
  for (const list of lists) all = all.flatMap(some => list.map(one => [...some, one])).slice(0, maximumWays)
  return all
}

export class Shown {
  readonly #views: ReadonlyMap<number, ReadonlyMap<string, readonly number[]>>
  readonly #byColumn = new Map<string, Set<number>>()

  constructor(origins: ReadonlyMap<number, readonly ColumnOrigin[]>) {
    this.#views = resolveOrigins(origins)
    for (const [view, shown] of this.#views) {
      for (const name of shown.keys()) {
        const views = this.#byColumn.get(name) ?? new Set()
        this.#byColumn.set(name, views.add(view))
      }
    }
  }

  /** The views that have all these columns of a table, in each variant. */
  views(table: number, columns: readonly number[]): Showing[] {
    const [first] = columns
    if (first === undefined) return []
    return [...(this.#byColumn.get(key(table, first)) ?? [])].flatMap(view => {
      const shown = this.#views.get(view)
      const lists = columns.map(column => shown?.get(key(table, column)) ?? [])
      return combinations(lists).map(found => ({ relation: view, columns: found }))
    })
  }

  /** The columns of a view for a table's key, in the key's order. Empty if the view lacks a column. */
  primaryKey(view: number, relations: ReadonlyMap<number, RelationFacts>): number[] {
    const shown = this.#views.get(view)
    if (shown === undefined) return []
    const tables = new Set([...shown.keys()].map(name => Number(name.split('.')[0])))
    const columns: number[] = []
    for (const table of tables) {
      const ownKey = relations.get(table)?.primaryKey ?? []
      const found = ownKey.map(column => shown.get(key(table, column))?.[0])
      if (found.length > 0 && found.every(column => column !== undefined)) {
        for (const column of found) if (!columns.includes(column)) columns.push(column)
      }
    }
    return columns
  }
}

type Side = { facts: RelationFacts; columns: readonly number[] }

const name = ({ schema, name }: QualifiedName): QualifiedName => ({ schema, name })

function pairs(source: Side, target: Side): ColumnPair[] {
  return source.columns.map((column, index) => [
    source.facts.columnNames.get(column) ?? '',
    target.facts.columnNames.get(target.columns[index] ?? 0) ?? '',
  ])
}

function between(source: Side, target: Side, cardinality: Cardinality): Relationship {
  return {
    kind: 'keys',
    source: name(source.facts),
    target: name(target.facts),
    self: source.facts.oid === target.facts.oid,
    cardinality,
    sourceIsView: source.facts.isView,
    targetIsView: target.facts.isView,
  }
}

const inverse = (list: readonly ColumnPair[]): ColumnPair[] => list.map(([source, target]) => [target, source])

/** A foreign key: a relation with its columns, and another relation with the referenced columns. */
type SeenKey = { constraint: ForeignKey; source: Side; target: Side }

/** Both directions of one key. */
function directions({ constraint, source, target }: SeenKey): Relationship[] {
  const columns = pairs(source, target)
  const { name: constraintName } = constraint
  if (constraint.isUnique) {
    return [
      between(source, target, { kind: 'one-to-one', constraint: constraintName, columns, referenced: false }),
      between(target, source, {
        kind: 'one-to-one',
        constraint: constraintName,
        columns: inverse(columns),
        referenced: true,
      }),
    ]
  }
  return [
    between(source, target, { kind: 'many-to-one', constraint: constraintName, columns }),
    between(target, source, { kind: 'one-to-many', constraint: constraintName, columns: inverse(columns) }),
  ]
}

/** If two keys of one relation are both part of its primary key, their targets are many-to-many. */
function throughJunctions(
  seen: readonly SeenKey[],
  primaryKeys: ReadonlyMap<number, readonly number[]>,
): Relationship[] {
  const byJunction = Map.groupBy(
    seen.filter(({ constraint }) => !constraint.isUnique),
    ({ source }) => source.facts.oid,
  )
  return [...byJunction].flatMap(([junctionId, keys]) => {
    const primaryKey = new Set(primaryKeys.get(junctionId) ?? [])
    const parts = keys.filter(({ source }) => source.columns.every(column => primaryKey.has(column)))
    return parts.flatMap(first =>
      parts
        .filter(
          second =>
            second.constraint !== first.constraint || second.source.columns.join() !== first.source.columns.join(),
        )
        .map(second =>
          between(first.target, second.target, {
            kind: 'many-to-many',
            junction: {
              table: name(first.source.facts),
              sourceConstraint: first.constraint.name,
              targetConstraint: second.constraint.name,
              sourceColumns: inverse(pairs(first.source, first.target)),
              targetColumns: inverse(pairs(second.source, second.target)),
            },
          }),
        ),
    )
  })
}

/** All relationships that follow from foreign keys. */
export function keyRelationships(
  relations: ReadonlyMap<number, RelationFacts>,
  foreignKeys: readonly ForeignKey[],
  shown: Shown,
  primaryKeys: ReadonlyMap<number, readonly number[]>,
): Relationship[] {
  const sides = (relation: number, columns: readonly number[]): Side[] =>
    [{ relation, columns }, ...shown.views(relation, columns)].flatMap(side => {
      const facts = relations.get(side.relation)
      return facts === undefined ? [] : [{ facts, columns: side.columns }]
    })
  const seen: SeenKey[] = foreignKeys.flatMap(constraint => {
    const targets = sides(constraint.target, constraint.targetColumns)
    return sides(constraint.source, constraint.sourceColumns).flatMap(source =>
      targets.map(target => ({ constraint, source, target })),
    )
  })
  return [...seen.flatMap(directions), ...throughJunctions(seen, primaryKeys)]
}
