/**
 * Once more, where Postgres has ended a transaction for what others have done, beside it or before it: the same again may well succeed. Only for what is one transaction as a
 * whole, and has told its client nothing yet.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from '../../postgres/errors.ts'

/**
 * serialization_failure and deadlock_detected (Postgres manual, appendix A); and invalid_sql_statement_name, where a function that ran on this connection
 * before has deallocated what was prepared there: the connection is given up with that.
 */
const passing = new Set(['40001', '40P01', '26000'])
const attempts = 4
const firstPauseMs = 10

/** How long to wait after so many failures: longer each time, and no two the same, so that those that met do not meet again. */
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
