/** What stands before and after a statement so that it neither runs for ever nor leaves anything behind. Pure. */
import type { Row, Step } from './run.ts'

export type TimeLimits = { readonly statementTimeoutMs: number }

/** `snapshot`: READ ONLY, with all statements seeing the same. */
export type TransactionKind = 'read' | 'snapshot' | 'write'

export const beginnings = {
  read: 'BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY',
  snapshot: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  write: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
} as const satisfies Record<TransactionKind, string>

/** Whoever waits for a lock holds others up. */
const maximumLockWaitMs = 10_000
/** Between the statements of a call there is nothing to wait for but this server. */
const maximumIdleMs = 10_000

/**
 * Limits of time, and that strings are read as the parser of this server reads them: with a role or database that has it otherwise, a backslash would end a string in one of
 * the two and not in the other, and hide a call from the judgement.
 */
const settingsText = `SELECT pg_catalog.set_config('statement_timeout', $1, true), pg_catalog.set_config('lock_timeout', $2, true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', $3, true),
  pg_catalog.set_config('standard_conforming_strings', 'on', true)`

export function beginSteps(kind: TransactionKind, { statementTimeoutMs }: TimeLimits): Step[] {
  const limits = [statementTimeoutMs, Math.min(statementTimeoutMs, maximumLockWaitMs), maximumIdleMs]
  return [
    { text: beginnings[kind], values: [], isUnnamed: true },
    { text: settingsText, values: limits.map(String) },
  ]
}

/**
 * A rolled back transaction leaves nothing but advisory locks of the session: a function may take one, however it is declared. The result is how long the transaction took, in seconds by the clock
 * of Postgres: what this server measures is mostly how long an answer waits to be read.
 */
const unlockText = `SELECT pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.transaction_timestamp())
  FROM pg_catalog.pg_advisory_unlock_all()`

export const endOfRead: readonly Step[] = [
  { text: unlockText, values: [] },
  { text: 'ROLLBACK', values: [], isUnnamed: true },
]

/** Milliseconds, from the result of the first step of `endOfRead`; undefined where it did not run. The clock of Postgres may have been set back meanwhile. */
export function tookMsOf(rows: readonly Row[] | undefined): number | undefined {
  const cell = rows?.[0]?.[0]
  return cell ? Math.max(0, Number(cell) * 1_000) : undefined
}

/** Ends a transaction that has failed. */
export const afterFailure: readonly Step[] = [
  { text: 'ROLLBACK', values: [], isUnnamed: true },
  { text: 'SELECT pg_catalog.pg_advisory_unlock_all()', values: [], isUnnamed: true },
]

export const commit: readonly Step[] = [{ text: 'COMMIT', values: [], isUnnamed: true }]
