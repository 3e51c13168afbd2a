/**
 * Plans the import of a new database: attempts, each from the beginning, until one is complete or none can succeed. The
 * operator writes an outcome to the status before it deletes the attempt's objects. No client may connect before
 * `completed`. Pure.
 */
import { annotations, awaitsImport, type ImportStatus } from '../../../crds/index.ts'
import { type ImportFault, type ImportOutcome, isPassingFault } from '../../../instance/import/contract.ts'
import { shortened } from '../../../values/text.ts'
import { timestamp } from '../../../values/time.ts'
import type { Assessment } from '../../workload/plan/assessment.ts'
import type { Observed } from '../observed.ts'
import { type ImportFacts, progressOf } from './facts.ts'

export type ImportAction =
  /** Creates the pod of an attempt, its Secret and its network policy. */
  | { do: 'start-import'; attempt: number }
  /** Deletes the objects of this attempt and of earlier attempts. */
  | { do: 'end-import'; upTo: number }
  /** Deletes the source Secret that the API created. */
  | { do: 'delete-import-source' }

type ImportPlan = {
  actions: ImportAction[]
  status: ImportStatus | undefined
  requeueAt: number | undefined
  awaitsPostgres: boolean
}

export type ImportDeadlines = { stallMs: number }
export const usualDeadlines: ImportDeadlines = { stallMs: 900_000 }

export const mostAttempts = 6
const firstRetryMs = 5_000
const longestRetryMs = 300_000
/** The shortest interval between status writes that only change the progress. */
const reportMs = 5_000
/** The interval between checks for a missing source Secret. */
const sourceMs = 3_000
/** Added to the stall timeout, so that the pod times out first and reports the reason. */
const graceMs = 120_000

const nothing = { actions: [], requeueAt: undefined, awaitsPostgres: false }

/**
 * Returns the first state of an import, which is recorded before the first volume is created. So the operator detects a
 * database that was recreated without its status. Its volume may contain client data or half an import, so nothing is
 * imported and no client may connect.
 */
export function importBefore(
  { database, importing, retained }: Pick<Observed, 'database' | 'importing'> & { retained: readonly unknown[] },
  now: number,
): ImportStatus | undefined {
  const { spec, status } = database
  if (spec.import === undefined || status?.import !== undefined) return undefined
  const at = timestamp(now)
  const state = { attempt: 0, startedAt: at, progressedAt: at }
  if (importing.isFresh && status?.volume === undefined && retained.length === 0) return { phase: 'pending', ...state }
  const message = `the database was recreated without its status; its volume may contain an unfinished import. If the data are complete, delete only the object (annotation ${annotations.orphan}=true) and create it again without spec.import`
  return { phase: 'failed', ...state, finishedAt: at, reason: 'ImportUnknown', message }
}

/** Returns why no client may connect; undefined if no import is pending. */
export function importWait({ database, importing }: Pick<Observed, 'database' | 'importing'>) {
  if (!awaitsImport(database)) return undefined
  const { import: state } = database.status ?? {}
  if (state?.phase === 'failed')
    return {
      reason: 'ImportFailed',
      message: `the import failed: ${state.reason}: ${state.message}`,
      isPermanent: true as const,
    }
  if (state === undefined || state.phase === 'pending')
    return importing.hasSource
      ? { reason: 'Importing', message: 'the import starts' }
      : {
          reason: 'ImportSourceMissing',
          message: `the source Secret "${database.spec.import?.secretName}" does not exist`,
        }
  if (state.phase === 'waiting')
    return {
      reason: 'Importing',
      message: `attempt ${state.attempt} failed (${state.reason}: ${state.message}); the next one starts at ${state.retryAt}`,
    }
  const { step = 'checking', tablesDone = 0, tables = 0, bytesDone = 0, attempt } = state
  const figures = tables === 0 ? '' : `, ${tablesDone} of ${tables} tables, ${bytesDone} bytes`
  return { reason: 'Importing', message: `importing (attempt ${attempt}): ${step}${figures}` }
}

export function planImport(
  observed: Pick<Observed, 'database' | 'importing'>,
  { pending, answered }: Pick<Assessment, 'pending' | 'answered'>,
  now: number,
  { stallMs }: ImportDeadlines,
): ImportPlan {
  const { database, importing } = observed
  const { import: state } = database.status ?? {}
  if (database.spec.import === undefined) return { ...nothing, status: state }
  if (state?.phase === 'completed' || state?.phase === 'failed')
    return { ...nothing, actions: cleared(importing), status: state }
  const { pod } = importing
  if (pod !== undefined && pod.attempt === state?.attempt && state.phase === 'waiting')
    return { ...nothing, actions: pod.isDeleting ? [] : [{ do: 'end-import', upTo: pod.attempt }], status: state }
  // The pod belongs to a previous attempt, whose objects are being deleted.
  if (pod !== undefined && pod.attempt < (state?.attempt ?? 0))
    return { ...nothing, status: state, requeueAt: now + firstRetryMs }
  if (pod?.end !== undefined)
    return { ...nothing, status: afterEnd(stateOf(state, pod.attempt, now), pod.end, now), requeueAt: now + 1 }
  if (pod !== undefined && !pod.isDeleting)
    return running(stateOf(state, pod.attempt, now), answered?.importing, now, stallMs)
  if (state?.phase === 'running' && pod === undefined) {
    const message = 'the import pod was deleted'
    return { ...nothing, status: failedAttempt(state, 'Interrupted', message, now), requeueAt: now + firstRetryMs }
  }
  // The objects of an earlier attempt are deleted before the next one starts.
  const attempt = state?.attempt ?? 0
  if (pod !== undefined) return { ...nothing, status: state }
  if (importing.remaining !== undefined && importing.remaining <= attempt)
    return { ...nothing, actions: [{ do: 'end-import', upTo: attempt }], status: state }
  const retryAt = state?.retryAt === undefined ? 0 : Date.parse(state.retryAt)
  if (now < retryAt) return { ...nothing, status: state, requeueAt: retryAt }
  if (pending?.step !== 'Importing') return { ...nothing, status: state }
  // The operator does not watch users' Secrets.
  if (!importing.hasSource) return { ...nothing, status: state, requeueAt: now + sourceMs }
  return { ...nothing, actions: [{ do: 'start-import', attempt: attempt + 1 }], status: state }
}

export const allAttempts = Number.MAX_SAFE_INTEGER

function cleared({ remaining, ownsSource }: ImportFacts): ImportAction[] {
  return [
    ...(remaining === undefined ? [] : [{ do: 'end-import', upTo: allAttempts } as const]),
    ...(ownsSource ? [{ do: 'delete-import-source' } as const] : []),
  ]
}

/** The status of an attempt whose pod exists. */
function stateOf(state: ImportStatus | undefined, attempt: number, now: number): ImportStatus {
  if (state?.attempt === attempt) return state
  const at = timestamp(now)
  return { phase: 'running', attempt, startedAt: at, progressedAt: at }
}

function running(state: ImportStatus, shown: string | undefined, now: number, stallMs: number): ImportPlan {
  const progress = progressOf(shown)
  const since = Date.parse(state.progressedAt ?? state.startedAt)
  const isFurther = progress !== undefined && (progress.beat !== state.beat || progress.step !== state.step)
  if (!isFurther && now >= since + stallMs + graceMs) {
    const message = `no progress since ${state.progressedAt ?? state.startedAt}`
    return { ...nothing, status: failedAttempt(state, 'Stalled', message, now), requeueAt: now + 1 }
  }
  const requeueAt = now + reportMs
  if (!isFurther || (now < since + reportMs && progress.step === state.step))
    return { ...nothing, status: state, requeueAt, awaitsPostgres: true }
  const { step, beat, tables, bytes } = progress
  const figures = {
    step,
    beat,
    tablesDone: tables.done,
    tables: tables.total,
    bytesDone: bytes.done,
    bytes: bytes.total,
  }
  return { ...nothing, status: { ...state, ...figures, progressedAt: timestamp(now) }, requeueAt, awaitsPostgres: true }
}

export function afterEnd(state: ImportStatus, outcome: ImportOutcome, now: number): ImportStatus {
  if ('fault' in outcome) return failedAttempt(state, outcome.fault, outcome.message, now)
  const { tables, rows, bytes, sourceVersion, leftOut } = outcome.result
  const { attempt, startedAt } = state
  const finishedAt = timestamp(now)
  const result = { tablesDone: tables, tables, rows, bytes, sourceVersion: sourceVersion.slice(0, 100) }
  return { phase: 'completed', attempt, startedAt, finishedAt, ...result, ...(leftOut.length > 0 ? { leftOut } : {}) }
}

export function failedAttempt(state: ImportStatus, fault: ImportFault, text: string, now: number): ImportStatus {
  const { attempt, startedAt } = state
  const failed = { attempt, startedAt, progressedAt: timestamp(now), reason: fault, message: shortened(text, 500) }
  if (!isPassingFault(fault) || attempt >= mostAttempts)
    return { phase: 'failed', ...failed, finishedAt: timestamp(now) }
  const delay = Math.min(longestRetryMs, firstRetryMs * 2 ** (attempt - 1))
  return { phase: 'waiting', ...failed, retryAt: timestamp(now + delay) }
}
