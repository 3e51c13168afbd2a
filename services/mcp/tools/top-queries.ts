/**
 * `top_queries`: the most expensive statements, from pg_stat_statements. If the extension is missing, the tool reports
 * how to install it.
 */

import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import {
  extensionOf,
  figuresOf,
  type Order,
  orders,
  type QueryFigures,
  type StatementsExtension,
  statementsExtension,
  topStatements,
} from '../catalogue/top-queries.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { DatabaseAccess } from '../database/access.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { toolInput } from './input.ts'
import { onDatabase } from './on-database.ts'
import { line, pageOf, shortened, start } from './pages.ts'

type TopQueriesParts = {
  readonly entries: DatabaseEntries
  readonly access: DatabaseAccess
  readonly limits: McpSettings['limits']
}

const name = 'top_queries'

const input = toolInput({
  order_by: z.enum(orders).default('total_time'),
  limit: z.int().min(1).max(50).default(10),
})

const definition: ToolDefinition = {
  name,
  title: 'Top queries',
  description: 'The most expensive statements, from pg_stat_statements.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

export function topQueries({ entries, access, limits }: TopQueriesParts): Tool {
  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const { order_by: order, limit } = input.read(args)
    return onDatabase(entries, context, async database => {
      const [found] = await access.read(database, [statementsExtension], context, name)
      const extension = extensionOf(found)
      const { schema } = extension
      if (schema === undefined || !extension.isLoaded) return toolError(howToEnable(extension))
      const [rows] = await access.read(database, [topStatements(schema, order, limit)], context, name)
      if (rows === undefined) throw new Error('a statement has no result')
      return toolText(written(database.name, order, figuresOf(rows), limits.resultTokens))
    })
  }
  return { definition, scopeOf: () => 'mcp:read', call }
}

function howToEnable({ schema, isAvailable, isLoaded }: StatementsExtension): string {
  if (!isAvailable && schema === undefined)
    return "pg_stat_statements is not installed on this server. Install the package with Postgres's contrib modules, add it to shared_preload_libraries, restart, then run CREATE EXTENSION pg_stat_statements."
  const load = 'add pg_stat_statements to shared_preload_libraries and restart Postgres'
  const create = 'run CREATE EXTENSION pg_stat_statements in this database'
  const steps = [...(isLoaded ? [] : [load]), ...(schema === undefined ? [create] : [])]
  return `pg_stat_statements is not enabled here. To enable it: ${steps.join(', then ')}.`
}

const heads = [
  'calls',
  'total_ms',
  'share',
  'mean_ms',
  'max_ms',
  'rows',
  'hit',
  'read',
  'temp',
  'wal_bytes',
  'role',
  'query',
]
const shownQuery = 400
/** Tokens for the text around the lines. */
const wordTokens = 200

const milliseconds = (value: number) => value.toFixed(value < 10 ? 2 : 0)

function queryLine(query: QueryFigures): string {
  return line([
    query.calls,
    milliseconds(query.totalMs),
    `${Math.round(query.share * 1_000) / 10}%`,
    milliseconds(query.meanMs),
    milliseconds(query.maximumMs),
    query.rows,
    query.blocksHit,
    query.blocksRead,
    query.temporaryBlocks,
    query.walBytes,
    query.role,
    shortened(query.text.replace(/\s+/g, ' ').trim(), shownQuery),
  ])
}

function written(database: string, order: Order, queries: readonly QueryFigures[], budget: number): string {
  const { text, next } = pageOf(
    [{ heading: line(heads), lines: queries.map(queryLine) }],
    start,
    budget - fenceTokens - wordTokens,
    atMostTokens,
  )
  const shown = next?.line ?? queries.length
  const truncation =
    next === undefined
      ? ''
      : `\n\nTruncated after ${shown} of ${queries.length}: use a smaller limit or another order_by.`
  return `Database: ${database}. Statements ordered by ${order}. The columns hit, read and temp are in blocks.\n\n${fenced(text)}${truncation}`
}
