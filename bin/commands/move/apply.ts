/**
 * Applies the source's transactions to the target in their order, and commits each together with its position. Each
 * UPDATE and DELETE must change exactly one row. Otherwise the target differs from the source, and the move fails.
 */
import { type Client, DatabaseError } from 'pg'
import { tableName } from '../../../instance/import/catalog.ts'
import { decode, parsePosition, type Relation } from './pgoutput.ts'
import { recordPosition } from './state.ts'
import { type Statement, statementOf } from './statements.ts'

const batchStatements = 200
const batchBytes = 2 ** 20
/** Small transactions of the source share a transaction of the target, until it has this number of changes. */
const commitChanges = 2_000
/** The most rows of one INSERT. */
const mostRows = 500

/** How often a position without changes is recorded. */
const recordMs = 5_000

/** A permanent fault: a retry would fail again. */
export class MoveError extends Error {
  override readonly name = 'MoveError'
}

export type Applier = {
  /** The position up to which the target has every change. */
  position(): bigint
  /** When the source committed the last received transaction. */
  committedAt(): number | undefined
  changes(): number
  message(payload: Buffer): Promise<void>
  /** Reports that the source has no more changes up to this position. Has no effect within a transaction. */
  reached(position: bigint): void
  /**
   * Commits all complete transactions. A position without changes is recorded every `recordMs`, or at once if `records`
   * is true.
   */
  settle(records?: boolean): Promise<void>
  /** The position in the target's record. The source may discard WAL before this position, and no other WAL. */
  recorded(): bigint
}

export function createApplier(client: Client, from: string): Applier {
  const relations = new Map<number, Relation>()
  const start = parsePosition(from)
  let position = start
  let complete = start
  let recorded = start
  let recordedAt = Date.now()
  let committedAt: number | undefined
  let changes = 0
  let isInside = false
  /** Statements that are not yet sent. */
  let batch: Statement[] = []
  let bytes = 0
  let pending = 0
  let isOpen = false
  let sinceCommit = 0

  const relationOf = (id: number): Relation => {
    const relation = relations.get(id)
    if (relation === undefined) throw new MoveError(`the source sent a change of an unknown table (${id})`)
    return relation
  }
  const flush = async () => {
    if (batch.length === 0) return
    const sent = batch
    batch = []
    bytes = 0
    // The target changes rows one by one. So it must check deferrable keys at the end, as the source's statement did.
    if (!isOpen) await client.query('BEGIN; SET CONSTRAINTS ALL DEFERRED')
    isOpen = true
    checkRows(sent, [await run(client, sent)].flat())
    changes += pending
    sinceCommit += pending
    pending = 0
  }
  const add = (statement: Statement) => {
    pending++
    bytes += statement.sql.length
    const last = batch.at(-1)
    if (last?.head === undefined || last.head !== statement.head || last.changes === mostRows) batch.push(statement)
    else batch[batch.length - 1] = { ...last, sql: `${last.sql}, ${statement.rows}`, changes: (last.changes ?? 0) + 1 }
  }
  const commit = async () => {
    await flush()
    if (complete > position) {
      await client.query(`${isOpen ? '' : 'BEGIN;'} ${recordPosition(complete)}; COMMIT`)
      isOpen = false
      recorded = complete
      recordedAt = Date.now()
    }
    position = complete
    sinceCommit = 0
  }
  return {
    position: () => position,
    committedAt: () => committedAt,
    changes: () => changes,
    message: async payload => {
      const message = decode(payload)
      if (message.kind === 'begin') isInside = true
      else if (message.kind === 'relation') relations.set(message.id, message.relation)
      else if (message.kind === 'commit') {
        isInside = false
        committedAt = message.at
        if (message.end > complete) complete = message.end
        if (sinceCommit + pending >= commitChanges) await commit()
      } else if (message.kind !== 'other') {
        const statement = statementOf(message, relationOf)
        if (statement === undefined) return
        add(statement)
        if (batch.length >= batchStatements || pending >= commitChanges || bytes >= batchBytes) await flush()
      }
    },
    reached: end => {
      if (!isInside && !isOpen && batch.length === 0 && complete === position && end > position) {
        position = end
        complete = end
      }
    },
    recorded: () => recorded,
    settle: async (records = false) => {
      if (isInside) return
      await commit()
      if (position <= recorded || !(records || Date.now() >= recordedAt + recordMs)) return
      await client.query(recordPosition(position))
      recorded = position
      recordedAt = Date.now()
    },
  }
}

/** @throws MoveError if a statement did not change as many rows as on the source */
function checkRows(statements: readonly Statement[], results: readonly { rowCount: number | null }[]): void {
  statements.forEach(({ changes, table }, index) => {
    const count = results[index]?.rowCount
    if (changes !== undefined && count !== changes)
      throw new MoveError(
        `a change of the table ${table} found ${count} rows instead of ${changes}: something else has changed this database`,
      )
  })
}

const separator = ';\n'

async function run(client: Client, statements: readonly Statement[]) {
  try {
    return await client.query(statements.map(({ sql }) => sql).join(separator))
  } catch (error) {
    if (!(error instanceof DatabaseError) || !isDataFault(error.code ?? '')) throw error
    throw new MoveError(
      `the database refuses a change of ${tableOf(error, statements)}: ${error.message}. If a definition changed on the source, make the same change in this database with the role app, and run "espalier move follow" again`,
    )
  }
}

/** Returns the table of the failed statement. The error names it, or has a position in the text of all statements. */
function tableOf({ schema, table, position }: DatabaseError, statements: readonly Statement[]): string {
  if (schema !== undefined && table !== undefined) return tableName({ schema, name: table })
  let rest = Number(position)
  const failed = statements.find(({ sql }) => {
    rest -= sql.length + separator.length
    return rest <= 0
  })
  return failed?.table ?? 'some table'
}

/**
 * Whether an SQLSTATE is a permanent fault. Lost connections, full or stopping servers, and temporary conflicts are
 * not. The code must come from a DatabaseError, because codes of system errors, such as EPIPE, can look the same.
 */
export const isDataFault = (code: string): boolean =>
  /^[0-9A-Z]{5}$/.test(code) && !/^(08|40|53|57|58|55006|55P03)/.test(code)
