/** When attempts start, end and are stopped for good. */
import { expect, test } from 'vitest'
import type { ImportStatus, ManagedDatabase } from '../../../crds/index.ts'
import { progressName } from '../../../instance/import/contract.ts'
import { timestamp } from '../../../values/time.ts'
import type { Assessment } from '../../workload/plan/assessment.ts'
import { type ImportFacts, noImport } from './facts.ts'
import { afterEnd, allAttempts, failedAttempt, importBefore, importWait, mostAttempts, planImport } from './plan.ts'

const now = Date.parse('2026-01-01T12:00:00Z')
const ago = (ms: number) => timestamp(now - ms)
const running: ImportStatus = { phase: 'running', attempt: 2, startedAt: ago(60_000), progressedAt: ago(60_000) }
const pod = { attempt: 2, isDeleting: false, end: undefined }
const stallMs = 900_000

function planOf(state: ImportStatus | undefined, facts: Partial<ImportFacts> = {}, shown?: string, step = 'Importing') {
  const database = { spec: { import: { secretName: 's' } }, status: { import: state } } as unknown as ManagedDatabase
  const importing = { ...noImport, hasSource: true, ...facts }
  const assessment = { pending: { step, reason: '', message: '' }, answered: { importing: shown } }
  return planImport({ database, importing }, assessment as unknown as Assessment, now, { stallMs })
}

test.each<[string, ReturnType<typeof planOf>, object]>([
  ['begins once Postgres is ready for it', planOf(undefined), { actions: [{ do: 'start-import', attempt: 1 }] }],
  ['does not begin before that', planOf(undefined, {}, undefined, 'PreparingRoles'), { actions: [] }],
  ['does not begin without the Secret of its source', planOf(undefined, { hasSource: false }), { actions: [] }],
  [
    'continues a start that a crash interrupted',
    planOf(undefined, { remaining: 1 }),
    { actions: [{ do: 'start-import', attempt: 1 }] },
  ],
  [
    'is recognised by its pod after a crash',
    planOf(undefined, { pod: { ...pod, attempt: 1 }, remaining: 1 }),
    { actions: [], status: { phase: 'running', attempt: 1 } },
  ],
  [
    'deletes a failed attempt',
    planOf({ ...running, phase: 'waiting', retryAt: ago(1) }, { pod, remaining: 2 }),
    { actions: [{ do: 'end-import', upTo: 2 }] },
  ],
  [
    'waits until that pod has ended',
    planOf({ ...running, phase: 'waiting', retryAt: ago(1) }, { pod: { ...pod, isDeleting: true }, remaining: 2 }),
    { actions: [] },
  ],
  [
    'deletes the remaining objects of the pod',
    planOf({ ...running, phase: 'waiting', retryAt: ago(1) }, { remaining: 2 }),
    { actions: [{ do: 'end-import', upTo: 2 }] },
  ],
  [
    'waits for the time of its retry',
    planOf({ ...running, phase: 'waiting', retryAt: ago(-9_000) }),
    { actions: [], requeueAt: expect.any(Number) },
  ],
  [
    'begins the next attempt then',
    planOf({ ...running, phase: 'waiting', retryAt: ago(1) }),
    { actions: [{ do: 'start-import', attempt: 3 }] },
  ],
  [
    'ignores the pod of an earlier attempt',
    planOf(running, { pod: { ...pod, attempt: 1 }, remaining: 2 }),
    { actions: [], status: running },
  ],
  [
    'deletes a pod that remains after the end',
    planOf({ ...running, phase: 'completed' }, { pod, remaining: 2, ownsSource: true }),
    {
      actions: [{ do: 'end-import', upTo: allAttempts }, { do: 'delete-import-source' }],
      status: { phase: 'completed' },
    },
  ],
  [
    'that failed does not begin again',
    planOf({ ...running, phase: 'failed' }),
    { actions: [], status: { phase: 'failed' } },
  ],
])('an import %s', (_, planned, expected) => {
  expect(planned).toMatchObject(expected)
})

test('a database that was recreated without its status is not imported again, and not served', () => {
  const of = (facts: Partial<ImportFacts>, status?: object, retained: unknown[] = []) => {
    const database = { spec: { import: { secretName: 's' } }, status } as unknown as ManagedDatabase
    return importBefore({ database, importing: { ...noImport, ...facts }, retained }, now)
  }
  expect(of({ isFresh: true })).toMatchObject({ phase: 'pending', attempt: 0 })
  expect(of({ isFresh: false })).toMatchObject({ phase: 'failed', reason: 'ImportUnknown' })
  expect(of({ isFresh: true }, { volume: {} })).toMatchObject({ phase: 'failed', reason: 'ImportUnknown' })
  expect(of({ isFresh: true }, {}, [{}])).toMatchObject({ phase: 'failed', reason: 'ImportUnknown' })
  expect(of({ isFresh: false }, { import: running })).toBeUndefined()
})

test('progress is recorded, and its absence ends the attempt', () => {
  const shown = progressName({
    step: 'indexes',
    tables: { done: 3, total: 4 },
    bytes: { done: 1_024, total: 2_048 },
    beat: 9,
  })
  const further = planOf(running, { pod, remaining: 2 }, shown)
  expect(further).toMatchObject({
    awaitsPostgres: true,
    status: { step: 'indexes', beat: 9, tablesDone: 3, tables: 4, bytesDone: 1_024, progressedAt: ago(0) },
  })
  const same = { ...running, step: 'indexes', beat: 9, progressedAt: ago(stallMs + 60_000) }
  expect(planOf(same, { pod, remaining: 2 }, shown).status).toEqual(same)
  const stalled = planOf({ ...same, progressedAt: ago(stallMs + 120_000) }, { pod, remaining: 2 }, shown)
  expect(stalled.status).toMatchObject({ phase: 'waiting', reason: 'Stalled' })
})

test('the delay between attempts grows, and attempts end', () => {
  const failed = (attempt: number) =>
    failedAttempt({ ...running, attempt }, 'SourceUnreachable', 'x'.repeat(2_000), now)
  expect([1, 2, 5].map(attempt => failed(attempt).retryAt)).toEqual([ago(-5_000), ago(-10_000), ago(-80_000)])
  expect(failed(1).message).toHaveLength(500)
  expect(failed(mostAttempts)).toMatchObject({ phase: 'failed', finishedAt: ago(0) })
  expect(failedAttempt(running, 'RowCountsDiffer', 'm', now).phase).toBe('failed')
  expect(afterEnd(running, { fault: 'TargetUnavailable', message: 'm' }, now).phase).toBe('waiting')
})

test('no client may connect before the end is recorded', () => {
  const of = (state: ImportStatus | undefined) => {
    const database = { spec: { import: { secretName: 's' } }, status: { import: state } } as unknown as ManagedDatabase
    return importWait({ database, importing: { ...noImport, hasSource: true } })
  }
  expect(of(undefined)).toMatchObject({ reason: 'Importing' })
  expect(of(running)).toMatchObject({ reason: 'Importing' })
  expect(of({ ...running, phase: 'failed', reason: 'Stalled', message: 'm' })).toMatchObject({ isPermanent: true })
  expect(of({ ...running, phase: 'completed' })).toBeUndefined()
})
