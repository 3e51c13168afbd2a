/** The vector arm: SQL that finds the rows nearest to a vector, exactly or with an index, and the index's settings. */
import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import { ownName } from './own-names.ts'
import type { DescribedTable, Operator, VectorColumn, VectorIndex } from './table.ts'
import type { FilterCondition } from './types.ts'

/**
 * `approximate`: reads `scanned` rows in the order of an index before it applies the filter. If the filter accepts
 * fewer than `needed` of these rows, the search must run again.
 */
export type VectorPlan =
  | { readonly kind: 'exact' }
  | {
      readonly kind: 'approximate'
      readonly index: VectorIndex
      readonly settings: readonly Setting[]
      /** Resets settings that would affect later statements. */
      readonly after: readonly Setting[]
      readonly scanned: number
      readonly needed: number
      /** Whether the filter is part of the scan, so that the scan finds the first rows that pass the filter. */
      readonly isFilterWithin: boolean
    }

export type Setting = readonly [name: string, value: string]

/** `hasTexts`: also returns the id and the text of each row, in addition to `row_key`, `score` and `similarity`. */
type Wanted = { readonly limit: number; readonly hasTexts: boolean }

type Conditions = { readonly condition: FilterCondition; readonly indexed: FilterCondition }

/**
 * The first parameter of `vectorSql`, in pgvector's binary form: the number of dimensions and zero in 16 bits each,
 * then the numbers. The binary form has a fifth of the text's size. The parameter has the column's own type, because
 * Postgres would execute a cast for every row.
 */
export function vectorParameter(vector: ArrayLike<number>, { type }: VectorColumn): { readonly binary: Buffer } {
  const width = type === 'halfvec' ? 2 : 4
  const binary = Buffer.alloc(4 + width * vector.length)
  const view = new DataView(binary.buffer, binary.byteOffset)
  view.setUint16(0, vector.length)
  for (let index = 0; index < vector.length; index++) {
    const number = vector[index] ?? 0
    if (type === 'halfvec') view.setFloat16(4 + width * index, number)
    else view.setFloat32(4 + width * index, number)
  }
  return { binary }
}

/** Scores by operator: higher is better. For cosine distance, the score is the similarity. */
const scores: Readonly<Record<Operator, (distance: string) => string>> = {
  '<=>': distance => `1 - ${distance}`,
  '<#>': distance => `- ${distance}`,
  '<->': distance => `1 / (1 + ${distance})`,
  '<+>': distance => `1 / (1 + ${distance})`,
}

const operatorOf = (plan: VectorPlan, { vector }: DescribedTable): Operator =>
  plan.kind === 'approximate' ? plan.index.operator : (vector.indexes[0]?.operator ?? '<=>')

/**
 * Returns the columns `row_key`, `score`, `similarity` (by cosine) and `accepted` (how many of the scanned rows the
 * filter accepts), nearest first. With texts, also returns `id` and `content`. Rows with equal distance are in physical
 * order. `indexed`: the condition of a partial index.
 */
export function vectorSql(
  described: DescribedTable,
  plan: VectorPlan,
  vectorLength: number,
  { condition, indexed }: Conditions,
  { limit, hasTexts }: Wanted,
): string {
  const { table, identity } = described
  const column = described.vector
  const operator = operatorOf(plan, described)
  const [distanceName, similarityName] = [ownName(table, 'distance'), ownName(table, 'similarity')]
  const acceptedName = ownName(table, 'accepted')
  const parameter = `$1::${column.schema}.${column.type}`
  const distanceBy = (by: Operator) => {
    const distance = `${column.expression} OPERATOR(${column.schema}.${by}) ${parameter}`
    // A column without fixed dimensions may contain vectors that cannot be compared with the query.
    return column.dimensions === undefined
      ? `(CASE WHEN ${column.schema}.vector_dims(${column.expression}) = ${vectorLength} THEN ${distance} END)`
      : `(${distance})`
  }
  const isExact = plan.kind === 'exact'
  // The sum prevents the use of an index.
  const distance = isExact ? `${distanceBy(operator)} + 0` : distanceBy(operator)
  const order = isExact
    ? `${distance}, ${identity.tie}`
    : `${plan.index.expression} OPERATOR(${column.schema}.${operator}) ${parameter}::${column.schema}.${plan.index.type}`
  const isWithin = isExact || plan.isFilterWithin
  const isAccepted = isWithin || condition === undefined ? '' : ` AND ${acceptedName}`
  const content = `t.${quoteIdentifier(table.textColumn)}`
  const isCosine = operator === '<=>'
  // Expressions over these columns are computed only for the found rows.
  const carried = new Set([
    ...identity.columns,
    ...(hasTexts ? [content] : []),
    `${distance} AS ${distanceName}`,
    ...(isCosine ? [] : [`1 - ${distanceBy('<=>')} AS ${similarityName}`]),
    ...(isAccepted === '' ? [] : [`(${condition}) AS ${acceptedName}`]),
  ])
  const shown = [
    `${table.rowExpression} AS row_key`,
    `${scores[operator](distanceName)} AS score`,
    `${isCosine ? scores['<=>'](distanceName) : similarityName} AS similarity`,
    `${isAccepted === '' ? 'NULL' : 'count(*) OVER ()'} AS accepted`,
    ...(hasTexts ? [`${table.idExpression} AS id`, `${content}::pg_catalog.text AS content`] : []),
  ]
  const inner = isWithin ? condition : indexed
  const filter = [`${column.expression} IS NOT NULL`, ...(inner === undefined ? [] : [inner])].join(' AND ')
  // With MATERIALIZED and the order by a sum, the planner cannot rely on the order of the index.
  return `WITH nearest AS MATERIALIZED (
SELECT ${[...carried].join(', ')}
FROM ${qualified(table)} AS t
WHERE ${filter}
ORDER BY ${order} LIMIT ${isExact ? limit : plan.scanned})
SELECT ${shown.join(', ')} FROM nearest AS t WHERE ${distanceName} <> 'NaN'${isAccepted} ORDER BY ${distanceName} + 0, ${identity.tie} LIMIT ${limit}`
}

/** A larger table should have an index. */
export const mostUnindexed = 10_000

/** Sizes in numbers of rows. */
export type Size = {
  /** The planner's estimate of how many rows the filters accept. */
  readonly matching: number
  readonly all: number
  readonly isFiltered: boolean
}

/**
 * Microseconds per row: for comparing in an exact scan, for finding a filter's rows in an exact scan, and for an index
 * scan.
 */
const costs = { compared: 1, read: 0.1, scanned: 10 }
/**
 * An index scans this many times the wanted rows, because a filter may correlate with the vectors. Then its rows are
 * not evenly distributed.
 */
const surplus = 2
/**
 * If a filter accepts a smaller share near the vector than elsewhere, by this factor, the accepted rows are at the edge
 * of the scanned rows. There, an index misses some rows.
 */
const leastDensity = 0.25
const mostScanned = 100_000

/**
 * Chooses how to search the table. An index is scanned without the filter. Of all rows that the filter accepts, the
 * result then has the nearest. A scan with the filter would continue until it has enough rows, and would return the
 * first rows that it reads. If the filter accepts only rows far from the vector, such a scan misses a fifth of the
 * nearest rows.
 */
export function vectorPlan(
  { vector, pgvector }: DescribedTable,
  { matching, all, isFiltered }: Size,
  limit: number,
): VectorPlan {
  const [index] = vector.indexes
  if (index === undefined) return { kind: 'exact' }
  const wanted = isFiltered ? Math.ceil((surplus * limit * Math.max(all, matching)) / Math.max(1, matching)) : limit
  const candidates = candidatesFor(all)
  const settings = [...indexSettings(index, pgvector, Math.max(candidates, wanted), candidates), readsIndex]
  const exactCost = costs.compared * matching + costs.read * all
  if (wanted > mostScanned || costs.scanned * Math.max(candidates, wanted) > exactCost) return { kind: 'exact' }
  const scanned = isFiltered ? Math.max(candidates, wanted) : limit
  const expected = scanned * Math.min(1, matching / Math.max(1, all))
  const needed = isFiltered ? Math.ceil(Math.max(limit / surplus, leastDensity * expected)) : limit
  return { kind: 'approximate', index, settings, after: settingsOfExact, scanned, needed, isFilterWithin: false }
}

/**
 * The plan if exact scans take too long: returns the first rows that the index reads and the filter accepts. Returns
 * undefined if there is no index.
 */
export function indexPlan({ vector, pgvector }: DescribedTable, { all }: Size, limit: number): VectorPlan | undefined {
  const [index] = vector.indexes
  if (index === undefined) return undefined
  const settings = [...indexSettings(index, pgvector, mostScanned / 2, candidatesFor(all)), readsIndex, ...readsNoOther]
  const after = [...settingsOfExact, ...readsNoOther.map(([name]) => [name, 'on'] as const)]
  return { kind: 'approximate', index, settings, after, scanned: limit, needed: 0, isFilterWithin: true }
}

/** Since this version, an index scan can continue until enough rows have passed the filter. */
const iterativeScans = 800
/**
 * In a larger graph, a search must keep more candidates to find as many rows: 200 for 10,000 rows, 400 for a million
 * rows.
 */
const candidatesFor = (rows: number): number =>
  Math.min(mostCandidates, Math.max(100, Math.round(100 * (Math.log10(rows + 1) - 2))))
const mostCandidates = 1_000
const leastTuples = 20_000
/** A multiple of work_mem. A scan that continues must remember the rows that it has seen. */
const memoryMultiplier = 8
const probedPart = 0.1
const leastProbes = 10

/**
 * Postgres does not count the cost of reading vectors that are stored out of line. It would prefer to read a whole
 * table of ten thousand rows.
 */
const readsIndex: Setting = ['enable_seqscan', 'off']

/**
 * These settings prevent Postgres from sorting the rows of the filter's own index, which would be the exact scan again.
 */
const readsNoOther: readonly Setting[] = [
  ['enable_bitmapscan', 'off'],
  ['enable_sort', 'off'],
]

/** Undoes `readsIndex`. */
export const settingsOfExact: readonly Setting[] = [['enable_seqscan', 'on']]

/** The settings of an index for a scan of this many rows. */
function indexSettings(
  { method, lists }: VectorIndex,
  pgvector: number,
  scanned: number,
  candidates: number,
): readonly Setting[] {
  const isIterative = pgvector >= iterativeScans
  switch (method) {
    case 'hnsw': {
      return [
        ['hnsw.ef_search', String(isIterative ? candidates : Math.min(mostCandidates, scanned))],
        ...(isIterative
          ? ([
              ['hnsw.iterative_scan', 'relaxed_order'],
              ['hnsw.max_scan_tuples', String(Math.max(leastTuples, 2 * scanned))],
              ['hnsw.scan_mem_multiplier', String(memoryMultiplier)],
            ] as const)
          : []),
      ]
    }
    case 'ivfflat': {
      const probes = Math.min(lists, Math.max(leastProbes, Math.ceil(lists * probedPart)))
      return [
        ['ivfflat.probes', String(probes)],
        ...(isIterative
          ? ([
              ['ivfflat.iterative_scan', 'relaxed_order'],
              ['ivfflat.max_probes', String(lists)],
            ] as const)
          : []),
      ]
    }
    default:
      // Other index types return rows until the caller stops.
      return []
  }
}
