/**
 * Retries a write whose transaction is read-only because an earlier function left the session read-only. Resetting the
 * session inside the transaction is too late: the transaction has already begun.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import type { Connection } from '../../postgres/connection.ts'

const readOnlyTransaction = '25006'

/**
 * Runs a writing transaction. If the transaction fails because it is read-only, retries once on a connection without
 * leftover settings. If Postgres is read-only, the retry fails, too.
 * @throws what the transaction throws
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
