/**
 * Retries a transaction that Postgres aborted because of concurrent or earlier transactions. Used only for a request
 * that is one complete transaction, before its response starts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from '../../../wire/errors.ts'

/**
 * serialization_failure and deadlock_detected (Postgres manual, appendix A), and invalid_sql_statement_name. Postgres
 * raises the last if an earlier function on this connection deallocated a prepared statement; the service then closes
 * that connection.
 */
const passing = new Set(['40001', '40P01', '26000'])
const attempts = 4
const firstPauseMs = 10

/**
 * The delay after this many failures. It grows, and is random, so that conflicting transactions do not conflict again.
 */
export const retryPauseMs = (failures: number, random: number): number =>
  firstPauseMs * 2 ** (failures - 1) * (0.5 + random)

/** @throws what the last attempt throws */
export async function retrying<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt()
    } catch (error) {
      const isPassing = error instanceof DatabaseError && passing.has(error.sqlState)
      if (!isPassing || failures === attempts || signal.aborted) throw error
      await sleep(retryPauseMs(failures, Math.random()))
    }
  }
}
