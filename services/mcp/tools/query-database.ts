/**
 * `query_database`: runs one statement. The statement must be a read, unless both the database and the caller's scope
 * allow writes.
 */

import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { noDatabase } from '../catalogue/failures.ts'
import type { Catalogue } from '../catalogue/index.ts'
import type { DatabaseSettings, McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { Ran } from '../database/access.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import type { Databases } from '../database/index.ts'
import { type CheckedStatement, createDecisions } from '../statement/decisions.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { resultText } from '../text/result.ts'
import type { Confirmations } from './confirmation.ts'
import type { Cursors } from './cursor.ts'
import { optionalText, requiredText, toolInput } from './input.ts'
import { missingRelation } from './missing-relation.ts'
import { type Page, pageOf } from './page.ts'
import { statementFailure } from './statement-failure.ts'

export type QueryParts = {
  readonly entries: DatabaseEntries
  readonly databases: Databases
  /** The catalogue for suggestions of names. */
  readonly catalogue: Catalogue
  readonly limits: McpSettings['limits']
}

const name = 'query_database'

const input = toolInput({
  query: requiredText({ minLength: 1, description: 'One SQL statement' }, 'must be one SQL statement'),
  limit: z.int().min(1).max(1_000).default(100).describe('Maximum rows'),
  // The tool must know whether a caller gave the argument, so the default is only documented.
  offset: z.int().min(0).max(1_000_000_000).meta({ default: 0, description: 'Rows to skip' }).optional(),
  cursor: optionalText({ description: 'From the previous page of the same query' }),
})

const readDescription =
  'Runs one SQL statement and returns rows as tab-separated text (NULL is \\N). Read-only: only SELECT, VALUES, TABLE, SHOW and EXPLAIN run.'
const writeDescription =
  'Runs one SQL statement and returns rows as tab-separated text (NULL is \\N). Databases with allow_writes accept and commit writes. The user must confirm changes of every row of a table, and definitions that may delete or replace data or objects. Other databases are read-only.'

const definitionFor = (allowWrites: boolean): ToolDefinition => ({
  name,
  title: 'Query the database',
  description: allowWrites ? writeDescription : readDescription,
  inputSchema: input.schema,
  annotations: allowWrites
    ? { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false }
    : { readOnlyHint: true, openWorldHint: false },
})

function written({ tag, class: kind }: CheckedStatement['statement'], { affected, columns }: Ran): string | undefined {
  if (kind === 'definition') return `Done and committed: ${tag}.`
  return kind === 'write' && columns.length === 0
    ? `Done and committed: ${tag}, ${affected} ${affected === 1 ? 'row' : 'rows'}.`
    : undefined
}

/** The first definition applies while no database is writable, the second while one is. */
const [readDefinition, writeDefinition] = [definitionFor(false), definitionFor(true)]

export function queryDatabase(
  { entries, databases, catalogue, limits }: QueryParts,
  confirmations: Confirmations,
  cursors: Cursors,
): Tool {
  const decisions = createDecisions()

  async function judged(query: string, database: DatabaseSettings, context: CallContext): Promise<CheckedStatement> {
    const found = await decisions.of(query, database, calls => databases.facts(database, context, calls))
    if (found.decision.mode === 'write' && !context.caller.scopes.has('mcp:write'))
      throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:write'] })
    return found
  }

  async function run(
    database: DatabaseSettings,
    { statement: requested, decision }: CheckedStatement,
    page: Page,
    context: CallContext,
  ) {
    const { statement, skip, prefix } = pageOf(requested, decision.mode, page)
    try {
      const ran = await databases.run(database, statement, context, name)
      if (decision.mode === 'write' && requested.class !== 'write') databases.forget(database)
      const [from, to] = [skip, Math.min(ran.texts.length, skip + page.limit)]
      const subject = { statement: requested.text, database, context }
      const shown = resultText(
        {
          database: database.name,
          // The next page of a write would write again, so a write has no cursor.
          cursorAt: decision.mode === 'read' ? at => cursors.at(at, subject) : undefined,
          columns: ran.columns.map(column => column.name),
          rows: {
            length: Math.max(0, to - from),
            decoded: () => ran.texts.decoded(from, to),
            plainLines: (widest, bytes) => ran.texts.plainLines(from, to, widest, bytes),
          },
          offset: page.offset,
          hasMore: ran.texts.length > to,
          isTruncated: ran.isTruncated,
        },
        limits.queryTokens ?? limits.resultTokens,
      )
      return toolText(written(requested, ran) ?? shown)
    } catch (error) {
      return failed(error, requested.text, database, context, prefix)
    }
  }

  async function failed(
    error: unknown,
    statement: string,
    database: DatabaseSettings,
    context: CallContext,
    prefix = 0,
  ): Promise<Outcome<ToolResult>> {
    const failure = statementFailure(error, statement, database, prefix)
    if (error instanceof StatementRefusal) databases.refused(database, statement, context, name)
    if (failure === undefined) throw error
    const reading = { database, context, tool: name }
    return toolError(failure + (await missingRelation(error, statement, prefix, reading, catalogue)))
  }

  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const { query, limit, offset, cursor } = input.read(args)
    if (offset !== undefined && cursor !== undefined)
      return toolError('offset: must not be given together with cursor.')
    const database = entries.current(context.caller)
    if (database === undefined) return toolError(noDatabase.message)
    let found: CheckedStatement
    try {
      found = await judged(query, database, context)
    } catch (error) {
      return failed(error, query, database, context)
    }
    const { statement: checked, decision } = found
    if (cursor !== undefined && decision.mode === 'write')
      return toolError('cursor: must not be given with a statement that writes. Nothing was run.')
    const start =
      cursor === undefined ? offset : cursors.offsetOf(cursor, { statement: checked.text, database, context })
    if (typeof start === 'string') return toolError(start)
    if (decision.confirm !== undefined) {
      const { name: of, allowUnconfirmed } = database
      const subject = { statement: checked.text, database: of, tool: name, effect: decision.confirm, allowUnconfirmed }
      const outcome = confirmations.check(subject, context)
      if (outcome !== undefined) return outcome
    }
    return run(database, found, { limit, offset: start ?? 0 }, context)
  }

  // The scope of a statement is known only after its check. Every call requires at least the scope for reads.
  return {
    get definition() {
      return entries.hasWritable() ? writeDefinition : readDefinition
    },
    task: 'optional',
    scopeOf: () => 'mcp:read',
    call,
  }
}
