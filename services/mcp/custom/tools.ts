/** Tools of the operator's own. What one runs is judged as a statement of `query_database` is, in the same transaction and with the same limits. */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { JudgedStatement, Ran } from '../database/access.ts'
import { type Analysis, analyse, calledNames } from '../statement/analysis.ts'
import { judge, type Verdict } from '../statement/judge.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { resultText } from '../text/result.ts'
import type { Confirmations } from '../tools/confirmation.ts'
import { pageOf } from '../tools/page.ts'
import { statementFailure } from '../tools/statement-failure.ts'
import { doStatement, functionCall, functionStatement, resultOfDo } from './procedural.ts'
import { type CustomParts, mostRows } from './resources.ts'
import type { CustomToolDefinition } from './schema.ts'
import { parameterCount } from './statements.ts'

/** What runs, and what is said of it to whoever confirms it. */
type Prepared = {
  readonly analysis: Analysis
  readonly verdict: Verdict
  readonly statement: JudgedStatement
  /** Characters before the statement in what is sent; of code Postgres names no place in it. */
  readonly prefix: number
}

/** As Postgres reads a parameter of any type: arrays and objects as JSON. */
function parameterOf(value: JsonObject[string]): string | null {
  if (value === undefined || value === null) return null
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** A character is a token at most, but for a few scripts. */
const cut = (text: string, tokens: number): string =>
  atMostTokens(text) <= tokens ? text : `${text.slice(0, Math.floor(tokens / 2)).toWellFormed()}…`

/** An integer that JSON has lost digits of is another number. */
const lostInteger = (args: JsonObject): string | undefined =>
  Object.keys(args).find(key => {
    const value = args[key]
    return Number.isInteger(value) && !Number.isSafeInteger(value)
  })

export function customTool(tool: CustomToolDefinition, parts: CustomParts, confirmations: Confirmations): Tool {
  const { entries, databases, limits } = parts
  const { name, description = name, input_schema: schema } = tool
  const order = Object.keys(schema.properties)
  const source = tool.type === 'sql' ? tool.sql : tool.code
  const limited = new WeakMap<DatabaseSettings, DatabaseSettings>()

  /** The shorter of both times. */
  function withTimeout(database: DatabaseSettings): DatabaseSettings {
    if (database.statementTimeoutMs <= tool.timeout) return database
    const known = limited.get(database) ?? { ...database, statementTimeoutMs: tool.timeout }
    limited.set(database, known)
    return known
  }

  const judgedBy = async (text: string, database: DatabaseSettings, context: CallContext) => {
    const analysis = analyse(await parseStatement(text))
    const verdict = judge(analysis, await databases.facts(database, context, calledNames(analysis)), database)
    if (verdict.mode === 'write' && !context.caller.scopes.has('mcp:write'))
      throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:write'] })
    return { analysis, verdict }
  }

  async function prepared(args: JsonObject, database: DatabaseSettings, context: CallContext): Promise<Prepared> {
    switch (tool.type) {
      case 'sql': {
        const { analysis, verdict } = await judgedBy(tool.sql, database, context)
        const { statement, prefix } = pageOf(analysis, verdict.mode, { limit: mostRows, offset: 0 })
        const values = order.slice(0, parameterCount(analysis)).map(key => parameterOf(args[key]))
        return { analysis, verdict, statement: { ...statement, values }, prefix }
      }
      case 'pl-do': {
        const text = doStatement(tool.code, args)
        const { analysis, verdict } = await judgedBy(text, database, context)
        const statement = { text: resultOfDo, before: [text], mode: verdict.mode, maximumRows: 1, written: tool.code }
        return { analysis, verdict, statement, prefix: Number.POSITIVE_INFINITY }
      }
      case 'pl-func': {
        const text = functionStatement(tool)
        const { analysis, verdict } = await judgedBy(text, database, context)
        const values = [JSON.stringify(args)]
        const run = { text: functionCall, before: [text], values, mode: verdict.mode, maximumRows: mostRows + 1 }
        return { analysis, verdict, statement: { ...run, written: tool.code }, prefix: Number.POSITIVE_INFINITY }
      }
    }
  }

  function shown({ columns, texts, affected, isCut }: Ran, { analysis, verdict }: Prepared, database: string): string {
    const { tag, class: kind } = analysis
    if (tool.type === 'pl-do') {
      const text = texts.decoded(0, 1)[0]?.[0] ?? ''
      return `Database: ${database}\n\n${fenced(cut(text, limits.resultTokens - fenceTokens))}`
    }
    if (columns.length === 0)
      return kind === 'write' ? `Done and committed: ${tag}, ${affected} rows.` : `Done and committed: ${tag}.`
    const length = Math.min(texts.length, mostRows)
    return resultText(
      {
        database,
        cursorAt: undefined,
        mayHaveWritten: verdict.mode === 'write',
        columns: columns.map(column => column.name),
        rows: {
          length,
          decoded: () => texts.decoded(0, length),
          plainLines: (widest, bytes) => texts.plainLines(0, length, widest, bytes),
        },
        offset: 0,
        hasMore: texts.length > length,
        isCut,
      },
      limits.resultTokens,
    )
  }

  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const lost = lostInteger(args)
    if (lost !== undefined)
      return toolError(`${lost}: must be from -(2^53 - 1) to 2^53 - 1; declare it as a string for more.`)
    const configured = entries.current(context.caller)
    if (configured === undefined) return toolError('No database is open to this caller.')
    const database = withTimeout(configured)
    let [prefix, said] = [0, source]
    try {
      const found = await prepared(args, database, context)
      prefix = found.prefix
      if (tool.type === 'sql') said = found.analysis.text
      const { confirm } = found.verdict
      if (confirm !== undefined) {
        const statement = `${source.trim()}\nArguments: ${JSON.stringify(args)}`
        const { name: of, allowUnconfirmed } = database
        const outcome = confirmations.check(
          { statement, database: of, tool: name, effect: confirm, allowUnconfirmed },
          context,
        )
        if (outcome !== undefined) return outcome
      }
      const ran = await databases.run(database, found.statement, context, name)
      if (found.verdict.mode === 'write') databases.forget(configured)
      return toolText(shown(ran, found, database.name))
    } catch (error) {
      if (error instanceof StatementRefusal) databases.refused(database, source, context, name)
      const failure = statementFailure(error, said, database, prefix)
      if (failure === undefined) throw error
      return toolError(failure)
    }
  }

  const definitionFor = (allowWrites: boolean): ToolDefinition => ({
    name,
    title: name,
    description,
    inputSchema: schema,
    annotations: allowWrites
      ? { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false }
      : { readOnlyHint: true, openWorldHint: false },
  })
  const [reading, writing] = [definitionFor(false), definitionFor(true)]
  return {
    get definition() {
      return entries.takeWrites() ? writing : reading
    },
    task: 'optional',
    scopeOf: () => 'mcp:read',
    call,
  }
}
