/**
 * Runs work for one client on a connection of the pool. If the client disconnects, its query is cancelled. No
 * transaction is visible to the next client. A connection whose server is silent is closed, and the pool opens another.
 */
import { DatabaseError } from '../../wire/errors.ts'
import type { Connection } from './connection.ts'
import type { Pool } from './pool.ts'
import type { Step } from './run.ts'

/** An early cancel request is lost, and a pooler may ignore one whose query waits. */
const cancelAgainMs = 500

const rollback: readonly Step[] = [{ text: 'ROLLBACK', values: [], isUnnamed: true }]

/** Ends an open transaction with these steps; closes the connection if Postgres refuses one of them. */
export async function rollBack(connection: Connection, steps: readonly Step[]): Promise<void> {
  await connection.run(steps, true).catch((error: unknown) => {
    if (error instanceof DatabaseError) connection.close()
  })
}

/**
 * Works on a connection of the pool, and releases it clean. An open transaction is ended by the steps of `ending`.
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
  let givingUp: NodeJS.Timeout | undefined
  const giveUpLater = () => {
    givingUp ??= pool.giveUpLater(connection)
  }
  const cancel = () => {
    connection.cancel()
    cancelling = setInterval(() => connection.cancel(), cancelAgainMs)
    giveUpLater()
  }
  try {
    signal.throwIfAborted()
    signal.addEventListener('abort', cancel, { once: true })
    return await work(connection)
  } finally {
    signal.removeEventListener('abort', cancel)
    clearInterval(cancelling)
    // The cancel request may still be in transit, and would cancel the next run here.
    if (cancelling !== undefined) connection.close()
    else if (connection.transaction !== 'idle') {
      giveUpLater()
      await rollBack(connection, ending)
    }
    clearTimeout(givingUp)
    pool.release(connection)
  }
}
