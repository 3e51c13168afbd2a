/** The vector arm: SQL of the rows nearest to a vector, exactly or by an index, and the settings of the index. Pure. */
import { quoteIdentifier } from '../../postgres/quote.ts'
import type { Parameters } from './parameters.ts'
import type { DescribedTable, Operator, VectorIndex } from './table.ts'
import type { FilterCondition } from './types.ts'

/** `approximate`: in the order of the index, which leaves out some rows. */
export type VectorPlan =
  | { readonly kind: 'exact' }
  | { readonly kind: 'approximate'; readonly index: VectorIndex; readonly settings: readonly Setting[] }

export type Setting = readonly [name: string, value: string]

/** What is given beside `row_key`, `score` and `similarity`: the id and the text of each row. */
type Wanted = { readonly limit: number; readonly hasTexts: boolean }

/** No column of a table is likely to have such a name. */
const [distanceName, similarityName] = ['"~distance"', '"~similarity"']

const vectorText = (vector: readonly number[]): string => `[${vector.join(',')}]`

/** More is better. By cosine it is the similarity. */
const scores: Readonly<Record<Operator, string>> = {
  '<=>': `1 - ${distanceName}`,
  '<#>': `- ${distanceName}`,
  '<->': `1 / (1 + ${distanceName})`,
  '<+>': `1 / (1 + ${distanceName})`,
}

export const operatorOf = (plan: VectorPlan, { vector }: DescribedTable): Operator =>
  plan.kind === 'approximate' ? plan.index.operator : (vector.indexes[0]?.operator ?? '<=>')

/**
 * Columns `row_key`, `score` and `similarity` (by cosine), with texts also `id` and `content`; the nearest first. Rows at equal distance are in the order of where they are.
 */
export function vectorSql(
  described: DescribedTable,
  plan: VectorPlan,
  vector: readonly number[],
  condition: FilterCondition,
  parameters: Parameters,
  { limit, hasTexts }: Wanted,
): string {
  const { table, identity } = described
  const column = described.vector
  const operator = operatorOf(plan, described)
  const place = parameters.add(vectorText(vector), `${column.schema}.${column.type}`)
  const distanceBy = (by: Operator) => {
    const distance = `${column.expression} OPERATOR(${column.schema}.${by}) ${place}`
    // A column of any dimensions may hold vectors that cannot be compared.
    return column.dimensions === undefined
      ? `(CASE WHEN ${column.schema}.vector_dims(${column.expression}) = ${vector.length} THEN ${distance} END)`
      : `(${distance})`
  }
  const isExact = plan.kind === 'exact'
  // No index returns rows in the order of a sum.
  const distance = isExact ? `${distanceBy(operator)} + 0` : distanceBy(operator)
  const order = isExact
    ? `${distance}, ${identity.tie}`
    : `${plan.index.expression} OPERATOR(${column.schema}.${operator}) ${place}::${column.schema}.${plan.index.type}`
  const content = `t.${quoteIdentifier(table.textColumn)}`
  const isCosine = operator === '<=>'
  // What is made of these columns is made for the rows that are found only.
  const carried = new Set([
    ...identity.columns,
    ...(hasTexts ? [content] : []),
    `${distance} AS ${distanceName}`,
    ...(isCosine ? [] : [`1 - ${distanceBy('<=>')} AS ${similarityName}`]),
  ])
  const shown = [
    `${table.rowExpression} AS row_key`,
    `${scores[operator]} AS score`,
    `${isCosine ? scores['<=>'] : similarityName} AS similarity`,
    ...(hasTexts ? [`${table.idExpression} AS id`, `${content}::pg_catalog.text AS content`] : []),
  ]
  const filter = [`${column.expression} IS NOT NULL`, ...(condition === undefined ? [] : [condition])].join(' AND ')
  // Materialized, and ordered by a sum: else the planner would believe in the order of the index.
  return `WITH nearest AS MATERIALIZED (
SELECT ${[...carried].join(', ')}
FROM ${quoteIdentifier(table.schema)}.${quoteIdentifier(table.name)} AS t
WHERE ${filter}
ORDER BY ${order} LIMIT ${limit})
SELECT ${shown.join(', ')} FROM nearest AS t WHERE ${distanceName} <> 'NaN' ORDER BY ${distanceName} + 0, ${identity.tie}`
}

/** In rows. */
export type Size = {
  /** That the filters accept, as the planner estimates. */
  readonly matching: number
  readonly all: number
}

/** Up to so many rows an exact scan takes a few milliseconds, and misses nothing. */
export const mostExact = 10_000
/** The same where the filter accepts most of the table, so that an index reads few rows in vain. */
const mostExactUnfiltered = 2_000
const weakFilter = 0.25

/** How the table is best searched. */
export function vectorPlan({ vector, pgvector }: DescribedTable, { matching, all }: Size, limit: number): VectorPlan {
  const [index] = vector.indexes
  const most = matching >= weakFilter * all ? mostExactUnfiltered : mostExact
  if (index === undefined || matching <= most) return { kind: 'exact' }
  return {
    kind: 'approximate',
    index,
    settings: indexSettings(index, pgvector, Math.max(all, matching) / matching, limit),
  }
}

/** From this version an index scan can go on until enough rows have passed the filter. */
const iterativeScans = 800
const leastCandidates = 200
const mostCandidates = 1_000
const [leastScanned, mostScanned] = [20_000, 200_000]
/** Of work_mem. A scan that goes on remembers what it has seen. */
const memoryMultiplier = 8
const probedPart = 0.1
const leastProbes = 10

/** `read`: how many rows are read for one that the filter accepts. */
function indexSettings(
  { method, lists }: VectorIndex,
  pgvector: number,
  read: number,
  limit: number,
): readonly Setting[] {
  const isIterative = pgvector >= iterativeScans
  switch (method) {
    case 'hnsw': {
      const candidates = Math.min(mostCandidates, isIterative ? Math.max(leastCandidates, 2 * limit) : mostCandidates)
      const scanned = Math.min(mostScanned, Math.max(leastScanned, Math.ceil(4 * limit * read)))
      return [
        ['hnsw.ef_search', String(candidates)],
        ...(isIterative
          ? ([
              ['hnsw.iterative_scan', 'relaxed_order'],
              ['hnsw.max_scan_tuples', String(scanned)],
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
      // Those of others return rows until the caller stops.
      return []
  }
}
