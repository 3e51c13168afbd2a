/** Statements that a program wrote itself, run so that they can change nothing: in one READ ONLY transaction on one snapshot, within limits of time and size, rolled back at its end. */
import { beginSteps, endOfRead, type TimeLimits } from './bounded-transaction.ts'
import type { OwnStatement } from './cells.ts'
import type { Connection } from './connection.ts'
import type { Field } from './messages.ts'
import type { Step } from './run.ts'

type OwnRows = {
  readonly columns: readonly Field[]
  /** Each value as text; null: NULL. */
  readonly rows: readonly (readonly (string | null)[])[]
}

/** Its text is not kept prepared: a tag makes it another each time. */
const stepOf = ({ text, values = [] }: OwnStatement): Step => ({
  text,
  values: values.map(value => (value === null ? null : String(value))),
  isUnnamed: true,
  isDescribed: true,
  isText: true,
})

/**
 * Returns the rows of each statement. Returns undefined if they come to more than `maximumBytes`: a part of them would pass for the whole.
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
  if (connection.isCut) return undefined
  return statements.map((_, index) => ({
    columns: connection.fields[begin.length + index] ?? [],
    rows: texts[begin.length + index]?.decoded() ?? [],
  }))
}
