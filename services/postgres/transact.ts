/**
 * Runs work for one client on a connection of the pool. If the client disconnects, the service cancels its query. The
 * next client sees no open transaction. If a connection's server is silent, the connection is closed, and the pool
 * opens another one.
 */
import { DatabaseError } from '../../wire/errors.ts'
import type { Connection } from './connection.ts'
import type { Pool } from './pool.ts'
import type { Step } from './run.ts'

/**
 * How often cancel requests are repeated. An early cancel request is lost, and a pooler may ignore a cancel request
 * whose query waits.
 */
const cancelAgainMs = 500

const rollback: readonly Step[] = [{ text: 'ROLLBACK', values: [], isUnnamed: true }]

/** Ends an open transaction with these steps. Closes the connection if Postgres refuses a step. */
export async function rollBack(connection: Connection, steps: readonly Step[]): Promise<void> {
  await connection.run(steps, true).catch((error: unknown) => {
    if (error instanceof DatabaseError) connection.close()
  })
}

/**
 * Works on a connection of the pool, and releases it without an open transaction: the steps of `ending` end it.
 * @throws AcquisitionTimeout, ConnectionFailure, what the work throws, and the signal's reason
 */
export async function transact<T>(
  pool: Pool,
  signal: AbortSignal,
  work: (connection: Connection) => Promise<T>,
  ending = rollback,
): Promise<T> {
  const connection = await pool.acquire()
  let cancelling: NodeJS.Timeout | undefined
  let closing: NodeJS.Timeout | undefined
  const closeLater = () => {
    closing ??= pool.closeLater(connection)
  }
  const cancel = () => {
    connection.cancel()
    cancelling = setInterval(() => connection.cancel(), cancelAgainMs)
    closeLater()
  }
  try {
    signal.throwIfAborted()
    signal.addEventListener('abort', cancel, { once: true })
    return await work(connection)
  } finally {
    signal.removeEventListener('abort', cancel)
    clearInterval(cancelling)
    // The cancel request may still be in transit, and would cancel the next run on this connection.
    if (cancelling !== undefined) connection.close()
    else if (connection.transaction !== 'idle') {
      closeLater()
      await rollBack(connection, ending)
    }
    clearTimeout(closing)
    pool.release(connection)
  }
}
