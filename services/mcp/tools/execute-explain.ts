/**
 * `execute_explain`: the plan of a SELECT, with findings. With ANALYZE, the statement runs in a READ ONLY transaction
 * like a query.
 */

import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { fenced } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { noDatabase } from '../catalogue/failures.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import { analyse, calledNames } from '../statement/analysis.ts'
import { decide, readsOnly } from '../statement/decide.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { planFindings } from '../text/plan.ts'
import { requiredText, toolInput } from './input.ts'
import { missingRelation } from './missing-relation.ts'
import type { QueryParts } from './query-database.ts'
import { statementFailure } from './statement-failure.ts'

const name = 'execute_explain'

const input = toolInput({
  query: requiredText({ minLength: 1, description: 'A SELECT' }, 'must be a SELECT, and must not be empty'),
  analyze: z.boolean().default(true),
  buffers: z.boolean().default(true),
  format: z.enum(['text', 'json']).default('text'),
})

const definition: ToolDefinition = {
  name,
  title: 'Explain a query',
  description: 'Shows the plan of a SELECT, with findings. Runs the SELECT, unless analyze is false.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

/** Tokens for findings, headings and the fence. */
const otherTokens = 800

/** Truncates a text to the lines that fit. */
function truncateToTokens(text: string, tokens: number): string {
  let remaining = tokens
  const lines = text.split('\n')
  for (const [index, line] of lines.entries()) {
    remaining -= atMostTokens(line) + 1
    if (remaining < 0)
      return [...lines.slice(0, index), `… ${lines.length - index} more lines of ${lines.length}`].join('\n')
  }
  return text
}

export function executeExplain({ entries, databases, catalogue, limits }: QueryParts): Tool {
  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const { query, analyze, buffers, format } = input.read(args)
    const database = entries.current(context.caller)
    if (database === undefined) return toolError(noDatabase.message)
    let prefix = 0
    let statement = query
    try {
      const analysis = analyse(await parseStatement(query))
      if (analysis.class !== 'select')
        return toolError(`query: only a SELECT can be explained; this is ${analysis.tag}.`)
      decide(analysis, await databases.facts(database, context, calledNames(analysis)), readsOnly)
      const options = [
        analyze ? 'ANALYZE' : 'COSTS',
        ...(analyze && buffers ? ['BUFFERS'] : []),
        `FORMAT ${format.toUpperCase()}`,
      ]
      const head = `EXPLAIN (${options.join(', ')})\n`
      prefix = head.length
      statement = analysis.text
      const text = head + statement
      const { texts, isTruncated } = await databases.run(
        database,
        { text, mode: 'read', maximumRows: 0 },
        context,
        name,
      )
      const rows = texts.decoded()
      if (isTruncated) return toolError('The plan exceeds the size limit of a result.')
      const plan = rows.map(([line]) => line ?? '').join('\n')
      const findings = planFindings(plan, format)
      const analysisText =
        findings.length === 0
          ? 'Analysis: no findings.'
          : `Analysis:\n${findings.map(finding => `- ${finding}`).join('\n')}`
      // Findings contain names of the database, so they are marked as data.
      return toolText(
        `Database: ${database.name}\n\n${fenced(`${truncateToTokens(plan, limits.resultTokens - otherTokens)}\n\n${analysisText}`)}`,
      )
    } catch (error) {
      if (error instanceof StatementRefusal) databases.refused(database, statement, context, name)
      const failure = statementFailure(error, statement, database, prefix)
      if (failure === undefined) throw error
      const reading = { database, context, tool: name }
      return toolError(failure + (await missingRelation(error, statement, prefix, reading, catalogue)))
    }
  }

  return { definition, scopeOf: () => 'mcp:read', call }
}
