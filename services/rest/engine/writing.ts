/**
 * Resets session settings of a function before the next request's statements; but its transaction has already begun by
 * then, possibly read-only.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import type { Connection } from '../../postgres/connection.ts'

const readOnlyTransaction = '25006'

/**
 * Runs a writing transaction; if it fails as read-only, retries once on a connection without leftover settings. A
 * Postgres that is read-only fails again.
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
