/**
 * The statements before and after a statement. They limit the statement's time, and ensure that the statement leaves
 * nothing behind. Pure.
 */
import type { Row, Step } from './run.ts'

export type TimeLimits = { readonly statementTimeoutMs: number }

/** `snapshot`: READ ONLY, with one snapshot for all statements. */
export type TransactionKind = 'read' | 'snapshot' | 'write'

export const beginnings = {
  read: 'BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY',
  snapshot: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  write: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
} as const satisfies Record<TransactionKind, string>

/** A session that waits for a lock delays other sessions. */
const maximumLockWaitMs = 10_000
/** Between a call's statements, Postgres waits only for this server. */
const maximumIdleMs = 10_000

/**
 * Sets timeouts and standard_conforming_strings, which this server's parser assumes. If a role or database switched it
 * off, a backslash would end a string for only one of Postgres and the parser. That could hide a call from the check.
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
 * A rolled back transaction leaves only session-level advisory locks, because any function can take one. Returns the
 * transaction's duration in seconds by Postgres's clock: this server would mostly measure how long a response waits
 * until it is read.
 */
const unlockText = `SELECT pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.transaction_timestamp())
  FROM pg_catalog.pg_advisory_unlock_all()`

export const endOfRead: readonly Step[] = [
  { text: unlockText, values: [] },
  { text: 'ROLLBACK', values: [], isUnnamed: true },
]

/**
 * Milliseconds, from the result of the first step of `endOfRead`. Undefined if that step did not run. Postgres's clock
 * may have been set back.
 */
export function tookMsOf(rows: readonly Row[] | undefined): number | undefined {
  const cell = rows?.[0]?.[0]
  return cell ? Math.max(0, Number(cell) * 1_000) : undefined
}

/** Ends a failed transaction. */
export const afterFailure: readonly Step[] = [
  { text: 'ROLLBACK', values: [], isUnnamed: true },
  { text: 'SELECT pg_catalog.pg_advisory_unlock_all()', values: [], isUnnamed: true },
]

export const commit: readonly Step[] = [{ text: 'COMMIT', values: [], isUnnamed: true }]
