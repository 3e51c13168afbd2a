/**
 * The configured databases: runs statements on them, records each statement in the audit log whatever its outcome, and
 * caches facts about their functions.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { AuditEntry, DatabaseAccess, Ran, Rows, StatementRunner } from './access.ts'
import { type Catalogue, createCatalogue } from './catalogue.ts'
import { createPools } from './pools.ts'
import { type StatementRequest, Transactions } from './transactions.ts'

type DatabaseAccessOptions = {
  /** The size limit of rows in one call. */
  readonly maximumBytes: number
  readonly audit: (entry: AuditEntry) => void
  /** Logs warnings about privileged logins, and the reasons why a database cannot be reached. */
  readonly warn: (facts: object, message: string) => void
}

export type Databases = DatabaseAccess &
  StatementRunner &
  Catalogue & {
    /** Opens the minimum connections of these databases, and closes the connections of all other databases. */
    prepare(databases: readonly DatabaseSettings[]): void
    close(): void
  }

type Noted = Pick<AuditEntry, 'mode' | 'author' | 'statement'>
type End = Pick<AuditEntry, 'rows' | 'milliseconds' | 'outcome'>

function outcomeOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return 'cancelled'
  if (error instanceof DatabaseError) return error.sqlState
  if (error instanceof ConnectionFailure || error instanceof AcquisitionTimeout) return 'no connection'
  return 'failed'
}

/** One object literal, so that all entries have the same hidden class. */
const entryOf = (
  { database, context, tool }: StatementRequest,
  { mode, author, statement }: Noted,
  { rows, milliseconds, outcome }: End,
): AuditEntry => ({
  tool,
  database: database.name,
  principal: context.caller.principal,
  requestId: context.requestId,
  mode,
  author,
  statement,
  rows,
  milliseconds,
  outcome,
})

const rowsOfAll = (results: readonly Rows[]) => results.reduce((sum, { rows }) => sum + rows.length, 0)

export function createDatabaseAccess({ maximumBytes, audit, warn }: DatabaseAccessOptions): Databases {
  const pools = createPools(Date.now)
  const transactions = new Transactions(pools, maximumBytes)

  /** Records the outcome of a call in the audit log. */
  async function noted<T>(
    request: StatementRequest,
    entry: Noted,
    rowsOf: (result: T) => number,
    work: () => Promise<T>,
  ): Promise<T> {
    const from = performance.now()
    const end = (rows: number, outcome: string) => {
      const milliseconds = Math.round((performance.now() - from) * 1_000) / 1_000
      audit(entryOf(request, entry, { rows, milliseconds, outcome }))
    }
    try {
      const result = await work()
      end(rowsOf(result), 'done')
      return result
    } catch (error) {
      const { signal } = request.context
      end(0, outcomeOf(error, signal))
      if (error instanceof ConnectionFailure && !signal.aborted)
        warn({ database: request.database.name, reason: error.message }, 'this database cannot be reached')
      throw error
    }
  }

  const read: DatabaseAccess['read'] = (database, statements, context, tool, isForAll = false) => {
    const request = { database, context, tool, isForAll }
    const statement = statements.map(({ text }) => text).join('; ')
    const entry = { mode: 'read', author: 'server', statement } as const
    return noted(request, entry, rowsOfAll, () => transactions.readOwn(request, statements))
  }

  return {
    read,
    ...createCatalogue({ read }, warn),
    run: (database, statement, context, tool) => {
      const request = { database, context, tool }
      const { mode, text, written = text } = statement
      const entry = { mode, author: 'caller', statement: written } as const
      const count = ({ texts, affected }: Ran) => Math.max(texts.length, mode === 'write' ? affected : 0)
      return noted(request, entry, count, () => transactions.runJudged(request, statement))
    },
    refused: (database, statement, context, tool) => {
      // The effect of a refused statement is not known for certain. So the log omits its text, as for a write.
      const entry = { mode: 'write', author: 'caller', statement } as const
      audit(entryOf({ database, context, tool }, entry, { rows: 0, milliseconds: 0, outcome: 'refused' }))
    },
    prepare: databases => pools.prepare(databases),
    close: () => pools.close(),
  }
}
