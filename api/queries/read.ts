/**
 * Reads the statistics of statements from pg_stat_statements in the schema `espalier`, as `admin`, with one statement.
 * The result is one text, so that the API need not parse rows of many columns.
 */
import { z } from 'zod'
import type { CredentialsOwner } from '../databases/credentials.ts'
import { type ApiError, conflict, unavailable } from '../errors.ts'
import type { SqlSessions } from '../sql/open.ts'
import { type Session, StatementFailure, snapshotName } from '../sql/session.ts'
import type { QueriesQuery } from './schema.ts'

const timeoutMs = 5_000
const longestText = 2_000
/**
 * The maximum length of a text as JSON, in which a control character takes six bytes. 100 such texts are shorter than
 * the longest row.
 */
const mostBytes = 8_192

const keys: Record<QueriesQuery['order'], string> = {
  total_time: 'total_exec_time',
  mean_time: 'mean_exec_time',
  calls: 'calls',
  rows: 'rows',
}

/**
 * A name in the statement, by which the statement excludes itself. pg_stat_statements does not always count a comment
 * as part of a statement.
 */
const own = 'espalier_queries'

const textOf = ({ order, limit }: QueriesQuery): string => `
SELECT pg_catalog.json_build_object('since', (SELECT pg_catalog.to_char(stats_reset AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM espalier.pg_stat_statements_info),
  'queries', coalesce(pg_catalog.json_agg(${own} ORDER BY ${own}.position), '[]'))::text
FROM (SELECT pg_catalog.row_number() OVER (ORDER BY ${keys[order]} DESC, queryid, userid) AS position,
    coalesce(queryid::text, '') AS id, coalesce(pg_catalog.pg_get_userbyid(userid)::text, '') AS role,
    pg_catalog.left(query, characters) AS text, pg_catalog.length(query) > characters AS is_cut,
    calls, total_exec_time AS total_ms, mean_exec_time AS mean_ms, max_exec_time AS max_ms, coalesce(total_exec_time / nullif(pg_catalog.sum(total_exec_time) OVER (), 0), 0) AS share, rows,
    shared_blks_hit AS blocks_hit, shared_blks_read AS blocks_read, temp_blks_read + temp_blks_written AS temporary_blocks, wal_bytes
  FROM espalier.pg_stat_statements
    CROSS JOIN LATERAL (SELECT CASE WHEN pg_catalog.octet_length(pg_catalog.to_json(pg_catalog.left(query, ${longestText}))::text) <= ${mostBytes}
      THEN ${longestText} ELSE ${Math.floor(mostBytes / 6)} END AS characters) AS shown
  WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    AND pg_catalog.strpos(query, '${own}') = 0 AND pg_catalog.strpos(query, '${snapshotName}') = 0
  ORDER BY position LIMIT ${limit}) AS ${own}`

const number = z.number()
const answer = z.object({
  since: z.string().nullish(),
  queries: z.array(
    z.object({
      ...{ id: z.string(), role: z.string(), text: z.string(), is_cut: z.boolean() },
      ...{ calls: number, total_ms: number, mean_ms: number, max_ms: number, share: number, rows: number },
      ...{ blocks_hit: number, blocks_read: number, temporary_blocks: number, wal_bytes: number },
    }),
  ),
})

/** SQLSTATEs of a server without these statistics: the schema, the extension or its library is missing. */
const missing = ['3F000', '42P01', '42883', '42501', '55000']

function refusalOf({ line }: StatementFailure): ApiError {
  if (missing.includes(line.sqlstate))
    return conflict('the database does not count statements: pg_stat_statements is missing in its schema espalier')
  return unavailable('the statistics of statements cannot be read now: retry', new Error(line.message))
}

async function run(session: Session, text: string): Promise<string> {
  await session.begin()
  let result = ''
  for await (const line of session.run({ text, parameters: [], maximumRows: 1, timeoutMs, shift: 0 }))
    if (line.type === 'rows') result = line.rows[0]?.[0] ?? ''
  return result
}

/** @throws ApiError 403, 409, 429, 503 */
export async function readQueries(
  sessions: SqlSessions,
  owner: CredentialsOwner,
  query: QueriesQuery,
  signal: AbortSignal,
) {
  sessions.requireEnabled()
  const session = await sessions.open(owner, { mode: 'read', role: 'admin', timeoutMs, isOwn: true }, signal)
  try {
    const { since, queries } = answer.parse(JSON.parse(await run(session, textOf(query))))
    return { ...(typeof since === 'string' ? { since } : {}), queries }
  } catch (error) {
    throw error instanceof StatementFailure ? refusalOf(error) : error
  } finally {
    session.close()
  }
}
