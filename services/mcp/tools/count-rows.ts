/**
 * `count_rows`: the number of rows of a table, or of the rows that match a condition. Returns an estimate if the caller
 * requests it, or if counting takes too long.
 */

import { z } from 'zod'
import { DatabaseError } from '../../../wire/errors.ts'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import { noDatabase } from '../catalogue/failures.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError } from '../core/tool.ts'
import { analyse, calledNames } from '../statement/analysis.ts'
import { decide, readsOnly } from '../statement/decide.ts'
import { isExpression } from '../statement/expression.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { optionalText, requiredText, toolInput } from './input.ts'
import { missingRelation } from './missing-relation.ts'
import type { QueryParts } from './query-database.ts'
import { statementFailure } from './statement-failure.ts'

const name = 'count_rows'

const input = toolInput({
  table: requiredText({ minLength: 1, description: 'A table, or schema.table' }, 'must name a table'),
  schema: optionalText({ default: 'public' }),
  where: optionalText({ description: 'SQL condition, without WHERE' }),
  estimate: z.boolean().default(false).describe("Returns the planner's estimate, without counting"),
})

const definition: ToolDefinition = {
  name,
  title: 'Count rows',
  description: 'Counts the rows of a table, or the rows that match a condition.',
  inputSchema: input.schema,
  outputSchema: {
    type: 'object',
    properties: { count: { type: 'integer' }, isEstimate: { type: 'boolean' } },
    required: ['count', 'isEstimate'],
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
}

/** Without `schema`, the table may be written as schema.table. A name that contains a dot requires `schema`. */
function relationOf(table: string, schema: string | undefined): string {
  const [, before, after] = schema === undefined ? (/^([^.]+)\.([^.]+)$/.exec(table) ?? []) : []
  if (before !== undefined && after !== undefined) return `${quoteIdentifier(before)}.${quoteIdentifier(after)}`
  return `${quoteIdentifier(schema ?? 'public')}.${quoteIdentifier(table)}`
}

const counting = 'SELECT count(*) '
const estimating = 'EXPLAIN (FORMAT JSON) SELECT 1 '

type Source = { readonly relation: string; readonly where: string | undefined }
const sqlOf = ({ relation, where }: Source): string =>
  `FROM ${relation}${where === undefined ? '' : ` WHERE (\n${where}\n)`}`

/** The row estimate of a plan. */
function planRows(text: string | null | undefined): number {
  // Postgres defines the structure of EXPLAIN's JSON.
  const explained = JSON.parse(text ?? '[]') as { Plan?: { 'Plan Rows'?: number } }[]
  return explained[0]?.Plan?.['Plan Rows'] ?? 0
}

function answer(count: number, isEstimate: boolean, why: string): Outcome<ToolResult> {
  const text = isEstimate ? `Count: about ${count} (estimate${why})` : `Count: ${count}`
  return { kind: 'result', result: { content: [{ type: 'text', text }], structuredContent: { count, isEstimate } } }
}

export function countRows({ entries, databases, catalogue }: QueryParts): Tool {
  async function first(database: DatabaseSettings, sql: string, context: CallContext) {
    const analysis = analyse(await parseStatement(sql))
    // A condition must only read, even if the database allows writes.
    decide(analysis, await databases.facts(database, context, calledNames(analysis)), readsOnly)
    const { texts } = await databases.run(database, { text: sql, mode: 'read', maximumRows: 1 }, context, name)
    return texts.decoded(0, 1)[0]?.[0]
  }

  const estimated = async (database: DatabaseSettings, source: Source, context: CallContext, why: string) =>
    answer(planRows(await first(database, `${estimating}${sqlOf(source)}`, context)), true, why)

  async function counted(database: DatabaseSettings, source: Source, context: CallContext) {
    try {
      return answer(Number(await first(database, `${counting}${sqlOf(source)}`, context)), false, '')
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.sqlState !== '57014') throw error
      return estimated(
        database,
        source,
        context,
        `; counting took longer than ${database.statementTimeoutMs / 1_000} s`,
      )
    }
  }

  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const { table, schema, where, estimate } = input.read(args)
    const database = entries.current(context.caller)
    if (database === undefined) return toolError(noDatabase.message)
    const prefix = (estimate ? estimating : counting).length
    const source = { relation: relationOf(table, schema), where }
    try {
      if (where !== undefined && !(await isExpression(where)))
        return toolError("where: must be one SQL condition, such as: created_at > now() - interval '1 day'")
      return estimate ? await estimated(database, source, context, '') : await counted(database, source, context)
    } catch (error) {
      if (error instanceof StatementRefusal) databases.refused(database, sqlOf(source), context, name)
      const failure = statementFailure(error, sqlOf(source), database, prefix)
      if (failure === undefined) throw error
      const reading = { database, context, tool: name }
      return toolError(failure + (await missingRelation(error, sqlOf(source), prefix, reading, catalogue)))
    }
  }

  return { definition, scopeOf: () => 'mcp:read', call }
}
