/** Reads pg_stat_statements. Uses only columns that all versions since 1.8 (Postgres 13) have. */

import { cellsOf } from '../../postgres/cells.ts'
import type { OwnStatement, Rows } from '../database/access.ts'
import { mayContainSecret } from '../statement/settings.ts'

export const orders = ['total_time', 'mean_time', 'max_time', 'calls', 'rows', 'blocks', 'temp', 'wal'] as const
export type Order = (typeof orders)[number]

export type QueryFigures = {
  readonly id: string
  readonly role: string
  readonly calls: number
  readonly totalMs: number
  readonly meanMs: number
  readonly maximumMs: number
  readonly rows: number
  readonly blocksHit: number
  readonly blocksRead: number
  readonly temporaryBlocks: number
  readonly walBytes: number
  /** The statement's share of the total execution time in this database. */
  readonly share: number
  readonly text: string
}

/** Returns the extension's quoted schema, or no row if the extension is not installed. */
export const statementsExtension: OwnStatement = {
  text: `
select (select pg_catalog.quote_ident(namespace.nspname) from pg_catalog.pg_extension extension
    join pg_catalog.pg_namespace namespace on namespace.oid = extension.extnamespace where extension.extname = 'pg_stat_statements') as schema,
  exists (select from pg_catalog.pg_available_extensions where name = 'pg_stat_statements') as is_available,
  exists (select from pg_catalog.pg_settings where name = 'pg_stat_statements.max') as is_loaded`,
}

export type StatementsExtension = {
  readonly schema: string | undefined
  readonly isAvailable: boolean
  readonly isLoaded: boolean
}

export function extensionOf(rows: Rows | undefined): StatementsExtension {
  const [cells] = rows ? cellsOf(rows) : []
  if (cells === undefined) throw new Error('the statement has one row')
  return { schema: cells.maybe('schema'), isAvailable: cells.flag('is_available'), isLoaded: cells.flag('is_loaded') }
}

const sortKeys: Readonly<Record<Order, string>> = {
  total_time: 'total_exec_time',
  mean_time: 'mean_exec_time',
  max_time: 'max_exec_time',
  calls: 'calls',
  rows: 'rows',
  blocks: 'shared_blks_hit + shared_blks_read',
  temp: 'temp_blks_read + temp_blks_written',
  wal: 'wal_bytes',
}

const longestText = 2_000

/** Only statements of this database. `schema` is quoted. */
export const topStatements = (schema: string, order: Order, limit: number): OwnStatement => ({
  values: [limit],
  text: `
select coalesce(queryid::text, '') as id, coalesce(pg_get_userbyid(userid), '') as role, calls, total_exec_time, mean_exec_time, max_exec_time, rows,
  shared_blks_hit, shared_blks_read, temp_blks_read + temp_blks_written as temporary, wal_bytes,
  coalesce(total_exec_time / nullif(pg_catalog.sum(total_exec_time) over (), 0), 0) as share, 
  case when ${mayContainSecret('query')} then '(hidden)' else pg_catalog.left(coalesce(query, ''), ${longestText}) end as text
from ${schema}.pg_stat_statements where dbid = (select oid from pg_catalog.pg_database where datname = current_database())
order by ${sortKeys[order]} desc, queryid limit $1`,
})

export const figuresOf = (rows: Rows): readonly QueryFigures[] =>
  cellsOf(rows).map(cells => ({
    id: cells.text('id'),
    role: cells.text('role'),
    calls: cells.number('calls'),
    totalMs: cells.number('total_exec_time'),
    meanMs: cells.number('mean_exec_time'),
    maximumMs: cells.number('max_exec_time'),
    rows: cells.number('rows'),
    blocksHit: cells.number('shared_blks_hit'),
    blocksRead: cells.number('shared_blks_read'),
    temporaryBlocks: cells.number('temporary'),
    walBytes: cells.number('wal_bytes'),
    share: cells.number('share'),
    text: cells.text('text'),
  }))
