/** The configured databases: statements on them, each noted for the audit log whatever comes of it, and what is known of their functions. */
import { AcquisitionTimeout, ConnectionFailure, DatabaseError } from '../../postgres/errors.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { AuditEntry, DatabaseAccess, Ran, Rows, StatementRunner } from './access.ts'
import { type Catalogue, createCatalogue } from './catalogue.ts'
import { createPools } from './pools.ts'
import { type Asked, Transactions } from './transactions.ts'

type DatabaseAccessOptions = {
  /** Of rows, for one call. */
  readonly maximumBytes: number
  readonly audit: (entry: AuditEntry) => void
  /** Told of logins that may do more than they should, and why a database cannot be reached. */
  readonly warn: (facts: object, message: string) => void
}

export type Databases = DatabaseAccess &
  StatementRunner &
  Catalogue & {
    /** Opens the connections that are to be kept open of these databases, and none of any other. */
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

/** One literal, so that all entries have one hidden class. */
const entryOf = (
  { database, context, tool }: Asked,
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

  /** Notes what came of a call, whatever it was. */
  async function noted<T>(
    asked: Asked,
    entry: Noted,
    rowsOf: (result: T) => number,
    work: () => Promise<T>,
  ): Promise<T> {
    const from = performance.now()
    const end = (rows: number, outcome: string) => {
      const milliseconds = Math.round((performance.now() - from) * 1_000) / 1_000
      audit(entryOf(asked, entry, { rows, milliseconds, outcome }))
    }
    try {
      const result = await work()
      end(rowsOf(result), 'done')
      return result
    } catch (error) {
      const { signal } = asked.context
      end(0, outcomeOf(error, signal))
      if (error instanceof ConnectionFailure && !signal.aborted)
        warn({ database: asked.database.name, reason: error.message }, 'this database cannot be reached')
      throw error
    }
  }

  const read: DatabaseAccess['read'] = (database, statements, context, tool, isForAll = false) => {
    const asked = { database, context, tool, isForAll }
    const statement = statements.map(({ text }) => text).join('; ')
    const entry = { mode: 'read', author: 'server', statement } as const
    return noted(asked, entry, rowsOfAll, () => transactions.readOwn(asked, statements))
  }

  return {
    read,
    ...createCatalogue({ read }, warn),
    run: (database, statement, context, tool) => {
      const asked = { database, context, tool }
      const { mode, text, written = text } = statement
      const entry = { mode, author: 'caller', statement: written } as const
      const count = ({ texts, affected }: Ran) => Math.max(texts.length, mode === 'write' ? affected : 0)
      return noted(asked, entry, count, () => transactions.runJudged(asked, statement))
    },
    refused: (database, statement, context, tool) => {
      // What it would have done is not known for sure; its text is kept back as that of a write.
      const entry = { mode: 'write', author: 'caller', statement } as const
      audit(entryOf({ database, context, tool }, entry, { rows: 0, milliseconds: 0, outcome: 'refused' }))
    },
    prepare: databases => pools.prepare(databases),
    close: () => pools.close(),
  }
}
