/**
 * The installation's own tools. Their statements are checked like those of `query_database`, and run in the same
 * transactions with the same limits.
 */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { noDatabase } from '../catalogue/failures.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { JudgedStatement, Ran } from '../database/access.ts'
import { type Analysis, analyse, calledNames } from '../statement/analysis.ts'
import { type Decision, decide } from '../statement/decide.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { resultText } from '../text/result.ts'
import type { Confirmations } from '../tools/confirmation.ts'
import { pageOf } from '../tools/page.ts'
import { statementFailure } from '../tools/statement-failure.ts'
import { argumentsCheck } from './arguments.ts'
import { doStatement, functionCall, functionStatement, resultOfDo } from './procedural.ts'
import { type CustomParts, mostRows } from './resources.ts'
import type { CustomToolDefinition } from './schema.ts'
import { parameterCount } from './statements.ts'

/** The statement to run, and its text for the user's confirmation. */
type Prepared = {
  readonly analysis: Analysis
  readonly decision: Decision
  readonly statement: JudgedStatement
  /**
   * The length of the text before the statement. Error positions of Postgres include this text. For PL/pgSQL code,
   * Postgres reports no position.
   */
  readonly prefix: number
}

/** Converts a value to the text of a parameter. Arrays and objects become JSON. */
function parameterOf(value: JsonObject[string]): string | null {
  if (value === undefined || value === null) return null
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** Except in a few scripts, a character has at most one token. */
const truncate = (text: string, tokens: number): string =>
  atMostTokens(text) <= tokens ? text : `${text.slice(0, Math.floor(tokens / 2)).toWellFormed()}…`

/** The name of an argument with an integer beyond 2^53, which JSON parsing may have changed. */
const lostInteger = (args: JsonObject): string | undefined =>
  Object.keys(args).find(key => {
    const value = args[key]
    return Number.isInteger(value) && !Number.isSafeInteger(value)
  })

const definitionOf = (
  { name, description = name, input_schema }: CustomToolDefinition,
  allowWrites: boolean,
): ToolDefinition => ({
  name,
  title: name,
  description,
  inputSchema: input_schema,
  annotations: allowWrites
    ? { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false }
    : { readOnlyHint: true, openWorldHint: false },
})

export class CustomTool implements Tool {
  readonly task = 'optional'
  readonly #tool: CustomToolDefinition
  readonly #parts: CustomParts
  readonly #confirmations: Confirmations
  readonly #checkArguments: (args: JsonObject) => void
  readonly #definitions: { readonly reading: ToolDefinition; readonly writing: ToolDefinition }
  /** Copies of database settings with the tool's own timeout, if it is shorter. */
  readonly #limited = new WeakMap<DatabaseSettings, DatabaseSettings>()

  constructor(tool: CustomToolDefinition, parts: CustomParts, confirmations: Confirmations) {
    this.#tool = tool
    this.#parts = parts
    this.#confirmations = confirmations
    this.#checkArguments = argumentsCheck(tool.input_schema)
    this.#definitions = { reading: definitionOf(tool, false), writing: definitionOf(tool, true) }
  }

  get definition(): ToolDefinition {
    return this.#parts.entries.hasWritable() ? this.#definitions.writing : this.#definitions.reading
  }

  scopeOf(): 'mcp:read' {
    return 'mcp:read'
  }

  async call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    this.#checkArguments(args)
    const lost = lostInteger(args)
    if (lost !== undefined)
      return toolError(`${lost}: must be from -(2^53 - 1) to 2^53 - 1; declare it as a string for more.`)
    const { entries, databases } = this.#parts
    const configured = entries.current(context.caller)
    if (configured === undefined) return toolError(noDatabase.message)
    const { name } = this.#tool
    const database = this.#withTimeout(configured)
    let prepared: Prepared | undefined
    try {
      prepared = await this.#prepare(args, database, context)
      const outcome = this.#confirm(prepared, args, database, context)
      if (outcome !== undefined) return outcome
      const ran = await databases.run(database, prepared.statement, context, name)
      if (prepared.decision.mode === 'write') databases.forget(configured)
      return toolText(this.#shown(ran, prepared, database.name))
    } catch (error) {
      if (error instanceof StatementRefusal) databases.refused(database, this.#source, context, name)
      const failure = statementFailure(error, this.#statementOf(prepared), database, prepared?.prefix ?? 0)
      if (failure === undefined) throw error
      return toolError(failure)
    }
  }

  get #source(): string {
    return this.#tool.type === 'sql' ? this.#tool.sql : this.#tool.code
  }

  /** The text that error positions of Postgres refer to. */
  #statementOf(prepared: Prepared | undefined): string {
    return this.#tool.type === 'sql' && prepared !== undefined ? prepared.analysis.text : this.#source
  }

  #withTimeout(database: DatabaseSettings): DatabaseSettings {
    const { timeout } = this.#tool
    if (database.statementTimeoutMs <= timeout) return database
    const known = this.#limited.get(database) ?? { ...database, statementTimeoutMs: timeout }
    this.#limited.set(database, known)
    return known
  }

  async #prepare(args: JsonObject, database: DatabaseSettings, context: CallContext): Promise<Prepared> {
    const tool = this.#tool
    switch (tool.type) {
      case 'sql': {
        const { analysis, decision } = await this.#check(tool.sql, database, context)
        const { statement, prefix } = pageOf(analysis, decision.mode, { limit: mostRows, offset: 0 })
        const order = Object.keys(tool.input_schema.properties)
        const values = order.slice(0, parameterCount(analysis)).map(key => parameterOf(args[key]))
        return { analysis, decision, statement: { ...statement, values }, prefix }
      }
      case 'pl-do': {
        const text = doStatement(tool.code, args)
        const { analysis, decision } = await this.#check(text, database, context)
        const statement = { text: resultOfDo, before: [text], mode: decision.mode, maximumRows: 1, written: tool.code }
        return { analysis, decision, statement, prefix: Number.POSITIVE_INFINITY }
      }
      case 'pl-func': {
        const text = functionStatement(tool)
        const { analysis, decision } = await this.#check(text, database, context)
        const values = [JSON.stringify(args)]
        const run = { text: functionCall, before: [text], values, mode: decision.mode, maximumRows: mostRows + 1 }
        return { analysis, decision, statement: { ...run, written: tool.code }, prefix: Number.POSITIVE_INFINITY }
      }
    }
  }

  async #check(text: string, database: DatabaseSettings, context: CallContext) {
    const analysis = analyse(await parseStatement(text))
    const facts = await this.#parts.databases.facts(database, context, calledNames(analysis))
    const decision = decide(analysis, facts, database)
    if (decision.mode === 'write' && !context.caller.scopes.has('mcp:write'))
      throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:write'] })
    return { analysis, decision }
  }

  /** Returns undefined if no confirmation is needed, or if the user has confirmed. */
  #confirm({ decision }: Prepared, args: JsonObject, database: DatabaseSettings, context: CallContext) {
    const { confirm: effect } = decision
    if (effect === undefined) return undefined
    const statement = `${this.#source.trim()}\nArguments: ${JSON.stringify(args)}`
    const { name, allowUnconfirmed } = database
    const subject = { statement, database: name, tool: this.#tool.name, effect, allowUnconfirmed }
    return this.#confirmations.check(subject, context)
  }

  #shown({ columns, texts, affected, isTruncated }: Ran, { analysis, decision }: Prepared, database: string): string {
    const { resultTokens } = this.#parts.limits
    const { tag, class: kind } = analysis
    if (this.#tool.type === 'pl-do') {
      const text = texts.decoded(0, 1)[0]?.[0] ?? ''
      return `Database: ${database}\n\n${fenced(truncate(text, resultTokens - fenceTokens))}`
    }
    if (columns.length === 0)
      return kind === 'write' ? `Done and committed: ${tag}, ${affected} rows.` : `Done and committed: ${tag}.`
    const length = Math.min(texts.length, mostRows)
    return resultText(
      {
        database,
        cursorAt: undefined,
        mayHaveWritten: decision.mode === 'write',
        columns: columns.map(column => column.name),
        rows: {
          length,
          decoded: () => texts.decoded(0, length),
          plainLines: (widest, bytes) => texts.plainLines(0, length, widest, bytes),
        },
        offset: 0,
        hasMore: texts.length > length,
        isTruncated,
      },
      resultTokens,
    )
  }
}
