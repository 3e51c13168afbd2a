/** Statements of a search on a connection: what stands around them, and how their rows are read. */
import type { NamedRows, OwnStatement } from '../../postgres/cells.ts'
import type { Connection } from '../../postgres/connection.ts'
import type { Parameter } from '../../postgres/messages.ts'
import type { Step } from '../../postgres/run.ts'
import type { Setting } from './vector-arm.ts'

/** The longest that one statement of a search may take. */
export const statementTimeoutMs = 30_000
/** Between the statements of a search nothing is waited for but this server. */
const idleTimeoutMs = 10_000

/** Compiling a plan takes longer than running it. */
const commonWith = (timeoutMs: number): readonly Setting[] => [
  ['transaction_read_only', 'on'],
  ['statement_timeout', String(timeoutMs)],
  ['idle_in_transaction_session_timeout', String(idleTimeoutMs)],
  // Configured filters have been read so.
  ['standard_conforming_strings', 'on'],
  ['jit', 'off'],
]

/** How many rows pass a filter depends on its values: each search with one is planned for them. */
export const filtered: readonly Setting[] = [['plan_cache_mode', 'force_custom_plan']]

/** Further settings, in a transaction that has the common ones. */
export const moreSettings = (settings: readonly Setting[]): Step => ({
  text: `SELECT ${settings.map(([name], place) => `pg_catalog.set_config('${name}', $${place + 1}, true)`).join(', ')}`,
  values: settings.map(([, value]) => value),
})

/** Settings until the transaction ends. Steps that run together without BEGIN are one transaction. */
export const settingsStep = (settings: readonly Setting[] = [], timeoutMs = statementTimeoutMs): Step =>
  moreSettings([...commonWith(timeoutMs), ...settings])

export const commitStep: Step = { text: 'COMMIT', values: [], isUnnamed: true }
export const beginStep: Step = { text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', values: [], isUnnamed: true }

export const rowsStep = (text: string, values: readonly Parameter[]): Step => ({ text, values, isText: true })

export type TextRow = readonly (string | null)[]

/** Runs the steps; returns the rows of each that `rowsStep` has made, in their order. */
export async function runSteps(
  connection: Connection,
  steps: readonly Step[],
): Promise<readonly (readonly TextRow[])[]> {
  await connection.run(steps, true)
  const texts = connection.takeTexts()
  return steps.flatMap(({ isText }, place) => (isText ? [texts[place]?.decoded() ?? []] : []))
}

/** Runs one statement of this server. */
export async function runOwn(connection: Connection, { text, values = [] }: OwnStatement): Promise<NamedRows> {
  const given = values.map(value => (value === null ? null : String(value)))
  await connection.run([settingsStep(), { text, values: given, isText: true, isDescribed: true }], true)
  const rows = connection.takeTexts()[1]?.decoded() ?? []
  return { columns: connection.fields[1] ?? [], rows }
}
