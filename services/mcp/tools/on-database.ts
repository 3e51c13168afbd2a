/** Runs a tool on the database that its caller has selected. A failure of the database becomes the tool's result. */

import { fenced } from '../../retrieval/fence.ts'
import { failureOf, noDatabase } from '../catalogue/failures.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type ToolResult, toolError } from '../core/tool.ts'
import type { DatabaseEntries } from '../database/entries.ts'

/** @throws errors that are not failures of the database */
export async function onDatabase(
  entries: DatabaseEntries,
  { caller }: CallContext,
  work: (database: DatabaseSettings) => Promise<Outcome<ToolResult>>,
): Promise<Outcome<ToolResult>> {
  const database = entries.current(caller)
  if (database === undefined) return toolError(noDatabase.message)
  try {
    return await work(database)
  } catch (error) {
    const failure = failureOf(error, database.name)
    if (failure === undefined) throw error
    // Postgres's messages may contain names and values of the database, so they are marked as data.
    return toolError(failure.isOfStatement === true ? `Error.\n${fenced(failure.message)}` : failure.message)
  }
}
