/** The restarts that a pod is due. */
import { describe, expect, test } from 'vitest'
import { annotations, desiredDigests, desiredHash } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { digestOf } from '../../objects/up-to-date.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import { restartsOf } from './due-restarts.ts'

const { now, status: onRecord, observedOf, assessmentOf } = reconciledDatabase()
const newest = assessmentOf().desired
const maintenanceMs = 60_000
const of = (given: Given, at = now) => restartsOf(observedOf(given), { now: at, maintenanceMs })(newest)
const none = { restartAnnotations: { restart: undefined, maintenance: undefined }, isUnsure: false, isGivenUp: false }

const version = digestOf('today')
const requesting: Given = { metadata: { annotations: { [annotations.restart]: 'today' } } }
const { spec } = observedOf().database
const hash = desiredHash({ ...spec, restart: 'today' })
const operationOf = (requestedHash = hash) => ({
  ...{ taskId: '018f3c6e-7b1a-7c3d-8e4f-0123456789ab', name: 'restart-managed' as const, hash: requestedHash },
  ...{ startedAt: timestamp(now), deadlineAt: timestamp(now + 30_000) },
})
/** The applied request, with digests of its members. */
const applied = (restart: string | undefined, appliedHash = 'older') => {
  const members = desiredDigests({ ...spec, restart })
  return { appliedHash, appliedDigests: { hash: appliedHash, members } }
}

describe('a requested restart', () => {
  test('is not due if none was requested', () => {
    expect(of({})).toEqual(none)
  })
  test.each<[string, Given, boolean]>([
    ['is due', requesting, true],
    ['is due after another', { ...requesting, status: applied('yesterday') }, true],
    [
      'is due if an older operator recorded no digests',
      { ...requesting, status: { appliedHash: 'older', appliedDigests: undefined } },
      true,
    ],
    ['is due together with another change', { ...requesting, spec: { options: [], ipAllowlist: { rules: [] } } }, true],
    ['is not due once applied', { ...requesting, status: { ...applied('today', hash) } }, false],
    [
      'is not due once applied, although another change is requested',
      { ...requesting, status: applied('today') },
      false,
    ],
    ['is not due before the database has served', { ...requesting, status: { appliedHash: undefined } }, false],
  ])('%s', (_, given, is) => {
    expect(of(given)).toEqual(
      is ? { ...none, restartAnnotations: { ...none.restartAnnotations, restart: version } } : none,
    )
  })
  test('fails at the deadline of its operation, and is not done afterwards', () => {
    const given = { ...requesting, status: { operation: operationOf() } }
    expect(of(given, now + 29_999).restartAnnotations.restart).toBe(version)
    expect(of(given, now + 30_000)).toEqual({ ...none, isGivenUp: true })
    expect(of({ ...given, status: { operation: operationOf('older') } }, now + 30_000).restartAnnotations.restart).toBe(
      version,
    )
    expect(of(requesting, now + 30_000).restartAnnotations.restart).toBe(version)
  })
  test('is not marked as failed if none was requested, whichever operation has ended', () => {
    const { appliedHash = '' } = onRecord
    const over: Given = {
      status: { operation: { ...operationOf(appliedHash), name: 'update-managed' } },
      pod: { restartAnnotations: { restart: 'had', maintenance: undefined } },
    }
    expect(of(over, now + 30_000)).toEqual(none)
  })
  test('is not marked as failed if the pod was restarted or no pod exists', () => {
    const late = (pod: Given['pod']) => of({ ...requesting, status: { operation: operationOf() }, pod }, now + 30_000)
    expect(late({ restartAnnotations: { restart: version, maintenance: undefined } })).toMatchObject({
      isGivenUp: false,
      restartAnnotations: { restart: version },
    })
    expect(late(undefined)).toMatchObject({ isGivenUp: false, restartAnnotations: { restart: version } })
  })
})

describe('the restart in a maintenance window', () => {
  const startedAt = timestamp(now)
  const window: Given = { status: { maintenance: { restart: 'w', startedAt } } }
  const pending = [{ reason: 'Settings', message: 'a', since: startedAt }]
  const older = { template: 'older' }

  test.each<[string, Given, boolean]>([
    ['is due if it applies a change', { ...window, pod: older }, true],
    ['is due if there is no pod', { ...window, pod: undefined }, true],
    ['is not due if it applies nothing', window, false],
    [
      'is not due once it has ended',
      { pod: older, status: { maintenance: { restart: 'w', startedAt, endedAt: startedAt } } },
      false,
    ],
    ['is not due without a window', { pod: older }, false],
    [
      'remains if the pod was restarted for it, so that its template does not change',
      { ...window, pod: { restartAnnotations: { restart: undefined, maintenance: 'w' } } },
      true,
    ],
    [
      'is not due because of the restart of another window',
      { ...window, pod: { restartAnnotations: { restart: undefined, maintenance: 'v' } } },
      false,
    ],
  ])('%s', (_, given, is) => {
    expect(of(given)).toEqual(
      is ? { ...none, restartAnnotations: { ...none.restartAnnotations, maintenance: 'w' } } : none,
    )
  })
  test('is not due after the window', () => {
    const given = { ...window, pod: older }
    expect(of(given, now + maintenanceMs - 1).restartAnnotations.maintenance).toBe('w')
    expect(of(given, now + maintenanceMs)).toEqual(none)
  })
  test('waits for Postgres if only Postgres knows whether it is due', () => {
    const unsure = { ...window, answer: undefined, status: { ...window.status, pendingRestart: pending } }
    expect(of(unsure)).toEqual({ ...none, isUnsure: true })
    expect(of({ ...unsure, status: { pendingRestart: pending } })).toEqual(none)
    expect(onRecord.pendingRestart).toBeUndefined()
  })
})
