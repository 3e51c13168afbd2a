/**
 * Finds indexes that would make a plan faster, each with the reason: scans that read many rows and keep few, joins that
 * read a whole table for a few rows, and sorts that return only the first few rows.
 */
import type { RelationDetails } from '../details.ts'
import type { Relation } from '../relations.ts'
import { type IndexPart, joinedBy, servedBy, sortedBy } from './conditions.ts'
import { nodesOf, type PlanNode } from './plan.ts'

export type Candidate = {
  /** The statement to run. */
  readonly sql: string
  /**
   * The index on the table in the plan, for a trial with HypoPG. `sql` may create the index on a partitioned table
   * instead.
   */
  readonly tried: string
  readonly schema: string
  readonly table: string
  readonly columns: readonly string[]
  readonly reason: string
}

/** A table in the plan, with its catalogue entry. */
export type KnownTable = { readonly relation: Relation; readonly details: RelationDetails }
type FindTable = (schema: string, name: string) => KnownTable | undefined

export type Findings = { readonly candidates: readonly Candidate[]; readonly notes: readonly string[] }

/** Postgres reads a smaller table as quickly without an index. */
const leastRows = 1_000
/** An index is useful if a scan keeps at most this share of its rows. */
const selectiveShare = 0.1
const joinShare = 0.01
const mostColumns = 3
const mostCandidates = 5
/** Postgres divides a parallel scan's estimated rows by this number, if the leader and two workers run it. */
const parallelFactor = 2.4

type Scan = { readonly node: PlanNode; readonly alias: string; readonly table: KnownTable; readonly rows: number }

export function findingsOf(plan: PlanNode, find: FindTable): Findings {
  const notes: string[] = []
  const scans = [...nodesOf(plan)].flatMap(node => {
    const scan = scanOf(node, find, notes)
    return scan === undefined ? [] : [scan]
  })
  const found = [
    ...scans.flatMap(scan => fromFilter(scan)),
    ...[...nodesOf(plan)].flatMap(node => [...fromJoin(node, scans), ...fromSort(node, scans)]),
  ]
  const unique = [...new Map(found.map(candidate => [candidate.sql, candidate])).values()]
  const candidates = unique.filter(candidate => {
    const existing = servingIndex(candidate, scans)
    if (existing !== undefined)
      notes.push(
        `${candidate.table} has the index ${existing} on ${candidate.columns.join(', ')} already, and the planner reads the table instead: run ANALYZE, or the condition keeps too many rows.`,
      )
    return existing === undefined
  })
  return { candidates: candidates.slice(0, mostCandidates), notes: [...new Set(notes)] }
}

function scanOf(node: PlanNode, find: FindTable, notes: string[]): Scan | undefined {
  const { type, schema, relation: name, alias = name } = node
  if (type !== 'Seq Scan' || schema === undefined || name === undefined || alias === undefined) return undefined
  const table = find(schema, name)
  if (table === undefined) return undefined
  const rows = table.relation.estimatedRows
  if (rows === undefined) {
    notes.push(`${table.details.qualifiedName} was never analyzed: run ANALYZE first, without it the plan is a guess.`)
    return undefined
  }
  return rows < leastRows ? undefined : { node, alias, table, rows }
}

const returnedRows = ({ rows, isParallel }: PlanNode) => Math.round(rows * (isParallel ? parallelFactor : 1))

function candidateOf(
  { table }: Scan,
  parts: readonly string[],
  columns: readonly string[],
  reason: string,
  method = '',
): Candidate {
  const { schema, name } = table.relation
  const { qualifiedName, partitionOf } = table.details
  const on = (target: string) => `${target} ${method}(${parts.join(', ')})`
  return {
    // Postgres cannot build an index of a partitioned table concurrently.
    sql:
      partitionOf === undefined
        ? `CREATE INDEX CONCURRENTLY ON ${on(qualifiedName)};`
        : `CREATE INDEX ON ${on(partitionOf)};`,
    tried: `CREATE INDEX ON ${on(qualifiedName)}`,
    schema,
    table: name,
    columns,
    reason,
  }
}

/** Columns with equality first, then one column with a range: an index does not help with further ranges. */
function orderedParts(parts: readonly IndexPart[]): readonly IndexPart[] {
  const unique = [...new Map(parts.map(part => [part.expression, part])).values()]
  const equal = unique.filter(({ use }) => use === 'equality')
  const range = unique.filter(({ use, column }) => use === 'range' && !equal.some(part => part.column === column))
  return [...equal, ...range.slice(0, 1)].slice(0, mostColumns)
}

function fromFilter(scan: Scan): readonly Candidate[] {
  const { node, alias, rows, table } = scan
  const returned = returnedRows(node)
  if (node.filter === undefined || returned > rows * selectiveShare) return []
  const reason = `${table.relation.name}: reads all ~${rows} rows to keep ~${returned} (${node.filter.slice(0, 200)})`
  const served = servedBy(node.filter, alias)
  const parts = orderedParts(served)
  if (parts.length > 0)
    return [
      candidateOf(
        scan,
        parts.map(({ expression }) => expression),
        parts.map(({ column }) => column),
        reason,
      ),
    ]
  return served
    .filter(({ use }) => use === 'pattern')
    .slice(0, 1)
    .map(({ expression, column }) =>
      candidateOf(scan, [expression], [column], `${reason}; needs CREATE EXTENSION pg_trgm`, 'USING gin '),
    )
}

/** Indexes for a join that reads a whole table although the other side has few rows. */
function fromJoin({ condition, children }: PlanNode, scans: readonly Scan[]): readonly Candidate[] {
  if (condition === undefined) return []
  return joinedBy(condition).flatMap(({ alias, column, written }) => {
    const scan = scans.find(one => one.alias === alias)
    if (scan === undefined) return []
    const other = children.find(child => ![...nodesOf(child)].includes(scan.node))
    if (other === undefined || children.length !== 2 || other.rows > scan.rows * joinShare) return []
    const reason = `${scan.table.relation.name}: reads all ~${scan.rows} rows to join ~${other.rows} by ${column}`
    return [candidateOf(scan, [written], [column], reason)]
  })
}

/** Indexes for a sort of a whole table that returns only its first few rows. */
function fromSort(limit: PlanNode, scans: readonly Scan[]): readonly Candidate[] {
  const sort = limit.type === 'Limit' ? firstSort(limit) : undefined
  if (sort === undefined) return []
  const scan = scans.find(({ node }) => sort.children.some(child => child === node || child.children.includes(node)))
  if (scan === undefined || limit.rows > scan.rows * joinShare) return []
  const keys = sort.sortKeys.map(key => sortedBy(key, scan.alias))
  const known = keys.filter(key => key !== undefined)
  if (known.length === 0 || known.length < keys.length) return []
  const filter = scan.node.filter === undefined ? [] : servedBy(scan.node.filter, scan.alias)
  const equal = orderedParts(filter.filter(({ use }) => use === 'equality'))
  const reason = `${scan.table.relation.name}: sorts ~${returnedRows(scan.node)} rows for the first ${limit.rows}`
  return [
    candidateOf(
      scan,
      [...equal, ...known].map(({ expression }) => expression).slice(0, mostColumns),
      [...equal, ...known].map(({ column }) => column).slice(0, mostColumns),
      reason,
    ),
  ]
}

/** The sort directly below the node, or below its Gather Merge. */
function firstSort({ children: [child] }: PlanNode): PlanNode | undefined {
  if (child === undefined) return undefined
  return child.type === 'Sort' ? child : child.type === 'Gather Merge' ? firstSort(child) : undefined
}

/** The index that begins with exactly these columns in this order, if it exists. */
function servingIndex({ schema, table, columns, sql }: Candidate, scans: readonly Scan[]): string | undefined {
  if (/[(,] ?(lower|upper)\(|_ops\)/.test(sql)) return undefined
  const scan = scans.find(one => one.table.relation.schema === schema && one.table.relation.name === table)
  return scan?.table.details.indexes.find(
    index =>
      index.isValid &&
      !index.definition.includes(' WHERE ') &&
      columns.every((column, position) => index.columns[position] === column),
  )?.name
}
