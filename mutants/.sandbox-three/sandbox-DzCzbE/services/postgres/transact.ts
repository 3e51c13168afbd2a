/** Work for one client on a connection of the pool. It promises that what runs for a client that is gone is stopped, and that no transaction of one client is seen by the next. */
// @ts-nocheck

import type { Connection } from './connection.ts'
import { DatabaseError } from './errors.ts'
import type { Pool } from './pool.ts'

/** One that comes before its query has begun is lost, and a pooler may pass over one whose query waits. */
const cancelAgainMs = 500

/**
 * Works on a connection of the pool, and gives it back clean.
 * @throws AcquisitionTimeout, ConnectionFailure, what the work throws, and what the signal is aborted with
 */
export async function transact<T>(
  pool: Pool,
  signal: AbortSignal,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await pool.acquire()
  let cancelling: NodeJS.Timeout | undefined
  const cancel = () => {
    connection.cancel()
    cancelling = setInterval(() => connection.cancel(), cancelAgainMs)
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
      await connection.run([{ text: 'ROLLBACK', values: [] }], true).catch((error: unknown) => {
        if (error instanceof DatabaseError) connection.close()
      })
    }
    pool.release(connection)
  }
}
