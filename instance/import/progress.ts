/** The progress of an import. Every few seconds, it is written to the target and checked for a stall. */
import { type ImportProgress, type ImportStep, progressName } from './contract.ts'
import { ImportError } from './fault.ts'
import type { Session } from './session.ts'

const reportMs = 2_000

export type Progress = {
  step(step: ImportStep): void
  expect(total: { tables: number; bytes: number }): void
  addBytes(count: number): void
  addTables(count: number): void
  /** Reports that the import makes progress, without bytes or tables. */
  beat(): void
  stop(): void
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/**
 * `isActive`: whether a server works for the import, for example builds an index. `stalled`: called after no progress
 * for `stallMs`.
 */
export function followProgress(
  session: Pick<Session, 'value'>,
  options: {
    stallMs: number
    isActive: () => Promise<boolean>
    stalled: (error: ImportError) => void
    now?: () => number
  },
): Progress {
  const { stallMs, isActive, stalled, now = Date.now } = options
  const state: ImportProgress = {
    step: 'checking',
    tables: { done: 0, total: 0 },
    bytes: { done: 0, total: 0 },
    beat: 0,
  }
  let beatAt = now()
  let shown = ''
  let isReporting = false
  const beat = () => {
    state.beat++
    beatAt = now()
  }
  const report = async () => {
    if (isReporting) return
    isReporting = true
    try {
      if (await isActive()) beat()
      const name = progressName(state)
      if (name !== shown) await session.value(`SET application_name = ${literal(name)}`)
      shown = name
    } catch {
      // The import itself fails in the same way, and reports the reason.
    } finally {
      isReporting = false
    }
  }
  const timer = setInterval(() => {
    if (now() - beatAt >= stallMs)
      stalled(new ImportError('Stalled', `no progress for ${Math.round(stallMs / 60_000)} minutes (${state.step})`))
    void report()
  }, reportMs)
  return {
    step: step => {
      state.step = step
      if (step === 'counting') state.tables.done = 0
      beat()
      void report()
    },
    expect: ({ tables, bytes }) => {
      state.tables.total = tables
      state.bytes.total = bytes
    },
    addBytes: count => {
      state.bytes.done += count
      beat()
    },
    addTables: count => {
      state.tables.done = Math.min(state.tables.total, state.tables.done + count)
      beat()
    },
    beat,
    stop: () => clearInterval(timer),
  }
}
