/**
 * What a function has left behind for the session ends with the next request's first statement; but its transaction has begun by then, and may have begun read-only.
 */
import type { Connection } from '../../postgres/connection.ts'
import { DatabaseError } from '../../postgres/errors.ts'

const readOnlyTransaction = '25006'

/**
 * Does what writes, a transaction as a whole: once more, on a connection without settings of others, where it was told that it must not write. A Postgres that nobody can write to says so
 * again.
 * @throws what it throws
 */
export async function writing<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.sqlState !== readOnlyTransaction) throw error
    const open = connection.transaction === 'idle' ? [] : [{ text: 'ROLLBACK', values: [] }]
    await connection.run([...open, { text: 'RESET ALL', values: [] }], false)
    return work()
  }
}
