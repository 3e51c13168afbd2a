/**
 * Work for one client on a connection of the pool. It promises that what runs for a client that is gone is stopped, that no transaction of one client is seen by the next, and that a
 * connection whose other end is silent is given up: the pool has another in its place.
 */
import type { Connection } from './connection.ts'
import { DatabaseError } from './errors.ts'
import type { Pool } from './pool.ts'
import type { Step } from './run.ts'

/** One that comes before its query has begun is lost, and a pooler may pass over one whose query waits. */
const cancelAgainMs = 500

const rollback: readonly Step[] = [{ text: 'ROLLBACK', values: [], isUnnamed: true }]

/** Ends a transaction that is left open by these steps; closes the connection where Postgres refuses one of them. */
export async function rollBack(connection: Connection, steps: readonly Step[]): Promise<void> {
  await connection.run(steps, true).catch((error: unknown) => {
    if (error instanceof DatabaseError) connection.close()
  })
}

/**
 * Works on a connection of the pool, and gives it back clean. A transaction that is left open ends by the steps of `ending`.
 * @throws AcquisitionTimeout, ConnectionFailure, what the work throws, and what the signal is aborted with
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
    // The cancellation may be on its way still, and would stop whatever runs here next.
    if (cancelling !== undefined) connection.close()
    else if (connection.transaction !== 'idle') {
      giveUpLater()
      await rollBack(connection, ending)
    }
    clearTimeout(givingUp)
    pool.release(connection)
  }
}
