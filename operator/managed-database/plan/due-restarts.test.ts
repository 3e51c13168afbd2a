/** Which restarts a pod is to have had. */
import { describe, expect, test } from 'vitest'
import { annotations, desiredDigests, desiredHash } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { digestOf } from '../../objects/up-to-date.ts'
import { type Given, settledDatabase } from '../../testing/settled.ts'
import { restartsOf } from './due-restarts.ts'

const { now, status: onRecord, observedOf, assessmentOf } = settledDatabase()
const newest = assessmentOf().desired
const maintenanceMs = 60_000
const of = (given: Given, at = now) => restartsOf(observedOf(given), { now: at, maintenanceMs })(newest)
const none = { marks: { restart: undefined, maintenance: undefined }, isUnsure: false, isGivenUp: false }

const mark = digestOf('today')
const asking: Given = { metadata: { annotations: { [annotations.restart]: 'today' } } }
const { spec } = observedOf().database
const hash = desiredHash({ ...spec, restart: 'today' })
const operationOf = (asked = hash) => ({
  ...{ taskId: '018f3c6e-7b1a-7c3d-8e4f-0123456789ab', name: 'restart-managed' as const, hash: asked },
  ...{ startedAt: timestamp(now), deadlineAt: timestamp(now + 30_000) },
})
/** What was in force, by an operator that says of what members. */
const applied = (restart: string | undefined, appliedHash = 'older') => {
  const members = desiredDigests({ ...spec, restart })
  return { appliedHash, appliedDigests: { hash: appliedHash, members } }
}

describe('a requested restart', () => {
  test('is not due if none was requested', () => {
    expect(of({})).toEqual(none)
  })
  test.each<[string, Given, boolean]>([
    ['is to come', asking, true],
    ['is to come after another', { ...asking, status: applied('yesterday') }, true],
    [
      'is to come where an older operator kept no digests',
      { ...asking, status: { appliedHash: 'older', appliedDigests: undefined } },
      true,
    ],
    [
      'is to come with something else that is asked',
      { ...asking, spec: { options: [], ipAllowlist: { rules: [] } } },
      true,
    ],
    ['has been where it is in force', { ...asking, status: { ...applied('today', hash) } }, false],
    ['has been, and something else is asked', { ...asking, status: applied('today') }, false],
    ['is not of a database that never served', { ...asking, status: { appliedHash: undefined } }, false],
  ])('%s', (_, given, is) => {
    expect(of(given)).toEqual(is ? { ...none, marks: { ...none.marks, restart: mark } } : none)
  })
  test('fails at the deadline of its operation, and is not done afterwards', () => {
    const given = { ...asking, status: { operation: operationOf() } }
    expect(of(given, now + 29_999).marks.restart).toBe(mark)
    expect(of(given, now + 30_000)).toEqual({ ...none, isGivenUp: true })
    expect(of({ ...given, status: { operation: operationOf('older') } }, now + 30_000).marks.restart).toBe(mark)
    expect(of(asking, now + 30_000).marks.restart).toBe(mark)
  })
  test('is not marked as failed if none was requested, whichever operation has ended', () => {
    const { appliedHash = '' } = onRecord
    const over: Given = {
      status: { operation: { ...operationOf(appliedHash), name: 'update-managed' } },
      pod: { marks: { restart: 'had', maintenance: undefined } },
    }
    expect(of(over, now + 30_000)).toEqual(none)
  })
  test('is not marked as failed if the pod was restarted or no pod exists', () => {
    const late = (pod: Given['pod']) => of({ ...asking, status: { operation: operationOf() }, pod }, now + 30_000)
    expect(late({ marks: { restart: mark, maintenance: undefined } })).toMatchObject({
      isGivenUp: false,
      marks: { restart: mark },
    })
    expect(late(undefined)).toMatchObject({ isGivenUp: false, marks: { restart: mark } })
  })
})

describe('the restart in a maintenance window', () => {
  const startedAt = timestamp(now)
  const window: Given = { status: { maintenance: { restart: 'w', startedAt } } }
  const told = [{ reason: 'Settings', message: 'a', since: startedAt }]
  const older = { template: 'older' }

  test.each<[string, Given, boolean]>([
    ['is to come where it brings something', { ...window, pod: older }, true],
    ['is to come where there is no pod', { ...window, pod: undefined }, true],
    ['is none where it brings nothing', window, false],
    [
      'is none that has ended',
      { pod: older, status: { maintenance: { restart: 'w', startedAt, endedAt: startedAt } } },
      false,
    ],
    ['is none where there is no window', { pod: older }, false],
    [
      'stays where the pod has had it, so that nothing changes by that',
      { ...window, pod: { marks: { restart: undefined, maintenance: 'w' } } },
      true,
    ],
    ['is none by another window', { ...window, pod: { marks: { restart: undefined, maintenance: 'v' } } }, false],
  ])('%s', (_, given, is) => {
    expect(of(given)).toEqual(is ? { ...none, marks: { ...none.marks, maintenance: 'w' } } : none)
  })
  test('is not due after the window', () => {
    const given = { ...window, pod: older }
    expect(of(given, now + maintenanceMs - 1).marks.maintenance).toBe('w')
    expect(of(given, now + maintenanceMs)).toEqual(none)
  })
  test('waits for Postgres if only Postgres knows whether it is due', () => {
    const unsure = { ...window, answer: undefined, status: { ...window.status, pendingRestart: told } }
    expect(of(unsure)).toEqual({ ...none, isUnsure: true })
    expect(of({ ...unsure, status: { pendingRestart: told } })).toEqual(none)
    expect(onRecord.pendingRestart).toBeUndefined()
  })
})
