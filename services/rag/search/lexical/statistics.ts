/**
 * Statistics of a table: its rows, the length of its texts, and its frequent terms. They come from the catalog and from
 * some blocks. The server never reads all rows of a large table for them.
 */
import { type Cells, cellsOf, type NamedRows, type OwnStatement } from '../../../postgres/cells.ts'
import { qualified } from '../../../postgres/quote.ts'
import type { SearchedTable } from '../types.ts'
import type { InvertedIndex } from './indexes.ts'

export type TableStatistics = {
  /** The estimated number of rows. */
  readonly rows: number
  /** The average number of different lexemes in a row. */
  readonly averageLength: number
  /** False if no lexeme of the sampled rows has positions. Then term frequencies are unknown. */
  readonly hasPositions: boolean
  /** The share of rows that contain a term, for the most frequent terms that ANALYZE found. */
  readonly frequent: ReadonlyMap<string, number>
  /** The maximum share of rows that contain a term missing in `frequent`; 1: unknown. */
  readonly rarerThan: number
}

export type Run = (statement: OwnStatement) => Promise<NamedRows>

type Sample = { readonly blocks: number; readonly averagedRows: number }
/** An average length with a 5 % error changes nDCG@10 of a judged collection by 0.002. */
const ofStored: Sample = { blocks: 300, averagedRows: 3_000 }
/** The sample is smaller, because vectors that are not stored must be computed. */
const ofComputed: Sample = { blocks: 40, averagedRows: 300 }

/** A partitioned table has no blocks of its own, so the statement adds up its partitions. */
const sizeStatement = ({ oid }: SearchedTable): OwnStatement => ({
  text: `SELECT coalesce(sum(c.reltuples) FILTER (WHERE c.reltuples > 0), 0)::float8 AS tuples,
  coalesce(sum(c.relpages) FILTER (WHERE c.reltuples > 0), 0)::float8 AS pages,
  coalesce(sum(pg_catalog.pg_relation_size(c.oid)), 0)::float8 / pg_catalog.current_setting('block_size')::float8 AS blocks
FROM pg_catalog.pg_class c
WHERE c.relkind <> 'p' AND (c.oid = $1::oid OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree($1::oid) WHERE isleaf))`,
  values: [oid],
})

const sampleStatement = (
  table: SearchedTable,
  vector: string,
  averagedRows: number,
  percent: number,
): OwnStatement => ({
  text: `SELECT count(*) AS rows, avg(length(s.v)) AS length, bool_or(length(ts_filter(setweight(s.v, 'A'), '{a}')) > 0) AS has_positions
FROM (SELECT CASE WHEN row_number() OVER () <= ${averagedRows} THEN ${vector} END AS v FROM ${qualified(table)} AS t TABLESAMPLE SYSTEM ($1::real)) AS s`,
  values: [percent],
})

/**
 * The array of frequencies ends with the minimum, the maximum, and the share of NULL. The frequencies of a partitioned
 * table cover all its partitions.
 */
const frequentStatement = ({ schema }: SearchedTable, { statistics }: InvertedIndex): OwnStatement => ({
  text: `SELECT e.lexeme, s.freqs[e.number] AS share, s.freqs[cardinality(s.freqs) - 2] AS least
FROM (SELECT most_common_elems::text::text[] AS lexemes, most_common_elem_freqs AS freqs FROM pg_catalog.pg_stats
  WHERE schemaname = $1 AND tablename = $2 AND attname = $3 AND most_common_elems IS NOT NULL ORDER BY inherited DESC LIMIT 1) AS s
CROSS JOIN LATERAL unnest(s.lexemes) WITH ORDINALITY AS e (lexeme, number)`,
  values: [schema, statistics.table, statistics.column],
})

export async function readStatistics(table: SearchedTable, index: InvertedIndex, run: Run): Promise<TableStatistics> {
  const [size] = cellsOf(await run(sizeStatement(table)))
  const blocks = size?.number('blocks') ?? 0
  const { blocks: sampledBlocks, averagedRows } = index.isStored ? ofStored : ofComputed
  const share = Math.min(1, sampledBlocks / Math.max(1, blocks))
  const [sample] = cellsOf(await run(sampleStatement(table, index.vector, averagedRows, share * 100)))
  const frequent = cellsOf(await run(frequentStatement(table, index)))
  return {
    rows: estimatedRows(size, (sample?.number('rows') ?? 0) / share),
    averageLength: Math.max(1, Number(sample?.maybe('length') ?? 1)),
    hasPositions: sample?.maybe('has_positions') === undefined || sample.flag('has_positions'),
    frequent: new Map(frequent.map(cells => [cells.text('lexeme'), cells.number('share')])),
    rarerThan: frequent[0]?.number('least') ?? 1,
  }
}

/** Estimates like the planner: the density that ANALYZE or VACUUM saw, times the current number of blocks. */
function estimatedRows(size: Cells | undefined, sampled: number): number {
  const [tuples, pages, blocks] = [size?.number('tuples') ?? 0, size?.number('pages') ?? 0, size?.number('blocks') ?? 0]
  return Math.max(1, Math.round(tuples > 0 && pages > 0 ? (tuples / pages) * blocks : sampled))
}
