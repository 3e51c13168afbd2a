/**
 * Runs this program's own statements so that they change nothing: in one READ ONLY transaction on one snapshot, which
 * is never committed. `readOnly` is for a request's statements, and limits their time and size. `withSnapshot` is for
 * the service's own reads.
 */
import type { Field } from '../../wire/messages.ts'
import type { Address } from './address.ts'
import { beginnings, beginSteps, endOfRead, type TimeLimits } from './bounded-transaction.ts'
import type { OwnStatement } from './cells.ts'
import { withClient } from './connect.ts'
import type { Connection } from './connection.ts'
import type { Step } from './run.ts'

type OwnRows = {
  readonly columns: readonly Field[]
  /** Each value as text; null: NULL. */
  readonly rows: readonly (readonly (string | null)[])[]
}

/** The statement is not prepared, because a tag changes its text each time. */
const stepOf = ({ text, values = [] }: OwnStatement): Step => ({
  text,
  values: values.map(value => (value === null ? null : String(value))),
  isUnnamed: true,
  isDescribed: true,
  isText: true,
})

/**
 * Returns the rows of each statement. Undefined if the rows exceed `maximumBytes`: a caller could mistake a part for
 * the full result.
 * @throws DatabaseError, ConnectionFailure
 */
export async function readOnly(
  connection: Connection,
  statements: readonly OwnStatement[],
  limits: TimeLimits & { readonly maximumBytes: number },
): Promise<readonly OwnRows[] | undefined> {
  const begin = beginSteps('snapshot', limits)
  await connection.run([...begin, ...statements.map(stepOf), ...endOfRead], true, limits.maximumBytes)
  const texts = connection.takeTexts()
  if (connection.isTruncated) return undefined
  return statements.map((_, index) => ({
    columns: connection.fields[begin.length + index] ?? [],
    rows: texts[begin.length + index]?.decoded() ?? [],
  }))
}

/** Runs one statement with parameters. Returns its rows, with columns by name. */
export type SnapshotQuery = <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>

/**
 * Opens a connection, and passes a query function to `read`. The `search_path` is empty, so that Postgres prints types
 * with their schemas.
 * @throws ConnectionFailure, what `read` throws
 */
export function withSnapshot<T>(address: Address, read: (query: SnapshotQuery) => Promise<T>): Promise<T> {
  return withClient(address, async client => {
    await client.query(beginnings.snapshot)
    await client.query(`SET LOCAL search_path = ''`)
    return await read(async <Row>(text: string, values: readonly unknown[] = []) => {
      const { rows } = await client.query(text, [...values])
      // The caller knows the column types.
      return rows as Row[]
    })
  })
}
