/** Runs the statements of a search on a connection: settings, transactions, and reading rows. */
import type { Parameter } from '../../../wire/messages.ts'
import type { NamedRows, OwnStatement } from '../../postgres/cells.ts'
import type { Connection } from '../../postgres/connection.ts'
import type { Step } from '../../postgres/run.ts'
import type { Setting } from './vector-arm.ts'

/** The timeout of one statement of a search. */
export const statementTimeoutMs = 30_000
/** Between the statements of a search, Postgres waits only for this server. */
const idleTimeoutMs = 10_000

/** JIT compilation would take longer than running the plan. */
const commonWith = (timeoutMs: number): readonly Setting[] => [
  ['transaction_read_only', 'on'],
  ['statement_timeout', String(timeoutMs)],
  ['idle_in_transaction_session_timeout', String(idleTimeoutMs)],
  // Configured filters were checked with this setting.
  ['standard_conforming_strings', 'on'],
  ['jit', 'off'],
]

/** The number of rows that a filter accepts depends on its values. So each search with a filter gets its own plan. */
export const filtered: readonly Setting[] = [['plan_cache_mode', 'force_custom_plan']]

/** Additional settings in a transaction that already has the common settings. */
export const moreSettings = (settings: readonly Setting[]): Step => ({
  text: `SELECT ${settings.map(([name], index) => `pg_catalog.set_config('${name}', $${index + 1}, true)`).join(', ')}`,
  values: settings.map(([, value]) => value),
})

/** Settings that apply until the transaction ends. Without BEGIN, steps that run together are one transaction. */
export const settingsStep = (settings: readonly Setting[] = [], timeoutMs = statementTimeoutMs): Step =>
  moreSettings([...commonWith(timeoutMs), ...settings])

export const commitStep: Step = { text: 'COMMIT', values: [], isUnnamed: true }
export const beginStep: Step = { text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', values: [], isUnnamed: true }

export const rowsStep = (text: string, values: readonly Parameter[]): Step => ({ text, values, isText: true })

export type TextRow = readonly (string | null)[]

/** Runs the steps. Returns the rows of each step that `rowsStep` made, in order. */
export async function runSteps(
  connection: Connection,
  steps: readonly Step[],
): Promise<readonly (readonly TextRow[])[]> {
  await connection.run(steps, true)
  const texts = connection.takeTexts()
  return steps.flatMap(({ isText }, index) => (isText ? [texts[index]?.decoded() ?? []] : []))
}

/** Runs one of this server's own statements. */
export async function runOwn(connection: Connection, { text, values = [] }: OwnStatement): Promise<NamedRows> {
  const texts = values.map(value => (value === null ? null : String(value)))
  await connection.run([settingsStep(), { text, values: texts, isText: true, isDescribed: true }], true)
  const rows = connection.takeTexts()[1]?.decoded() ?? []
  return { columns: connection.fields[1] ?? [], rows }
}
