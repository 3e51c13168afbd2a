/**
 * A branch whose source is recorded: when it is connectable, when its creation fails, and what it reports after that.
 */
import { describe, expect, test } from 'vitest'
import {
  apiVersion,
  type Backup,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  type Task,
} from '../../../crds/index.ts'
import { preciseTime, timestamp } from '../../../values/time.ts'
import { systemIdentifierAnnotation } from '../../member/storage/claim.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { branchSettings, type GivenBranch, reconciledBranch } from '../../testing/reconciled-branch.ts'
import type { Observed } from '../observed.ts'

const { now, ago, root, status: reconciled, observedOf, planOf } = reconciledBranch()
const serving = observedOf()
const { children, pod, postgres } = serving
const { claim, statefulSet } = children
if (claim === undefined || pod === undefined || statefulSet === undefined)
  throw new Error('the branch has no claim, pod or StatefulSet')

const statusOf = (given: GivenBranch, at = now) => planOf(given, at).status
const condition = (given: GivenBranch, type: string, at = now) => {
  const { status, reason, message } = conditionOf(statusOf(given, at), type) ?? {}
  return [status, reason, message]
}
const creating = (more: GivenBranch = {}): GivenBranch => ({
  ...more,
  status: { phase: 'creating', connectableAt: undefined, ...more.status },
  conditions: {
    Ready: { status: 'False' },
    Progressing: { status: 'True', reason: 'Starting', message: 'the pod starts' },
    ...more.conditions,
  },
})
const down: Partial<Observed> = { pod: undefined, postgres: undefined }
const backup: Backup = {
  apiVersion,
  kind: 'Backup',
  metadata: { name: 'prebranch', namespace: 'n', uid: 'b', labels: { [labels.managedBy]: managedByEspalier } },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'prebranch' },
  status: { phase: 'completed' },
}
const foreign: Backup = { ...backup, metadata: { ...backup.metadata, labels: {} } }
const ended = { status: { phase: 'succeeded', finishedAt: ago(0) } } as Task // only these fields are read

describe('a branch that is being created', () => {
  test('reports what it waits for', () => {
    const given = creating({ rest: down })
    expect(statusOf(given)).toMatchObject({ phase: 'creating', operation: { name: 'create-branch' } })
    expect(statusOf(given).connectableAt).toBeUndefined()
    expect(condition(given, 'Progressing')).toEqual(['True', 'Starting', 'waiting for the pod'])
    expect(condition(given, 'Ready')[0]).toBe('False')
  })
  test('is connectable, and billed, from the first pass in which it serves', () => {
    const created = statusOf(creating())
    expect(created).toMatchObject({ phase: 'available', connectableAt: preciseTime(now) })
    expect(created.creationDuration).toMatch(/^[0-9]+[hms]/)
    const before = { connectableAt: ago(9_000), creationDuration: '3s' }
    expect(statusOf({ status: before }).creationDuration).toBe('3s')
    expect(condition(creating(), 'Progressing')).toEqual(['False', 'Completed', 'the branch has become connectable'])
    expect(statusOf({ status: { connectableAt: ago(9_000) } }).connectableAt).toBe(ago(9_000))
  })
  test('reports the end of its operation, and keeps the operation until the Task has ended', () => {
    const operation = { taskId: 't', name: 'create-branch' as const, startedAt: ago(9_000) }
    expect(statusOf(creating({ status: { operation } })).operation).toEqual(operation)
    const withOperation: GivenBranch = { status: { operation } }
    expect(statusOf(withOperation).operation).toEqual(operation)
    expect(statusOf({ ...withOperation, rest: { task: ended } }).operation).toBeUndefined()
    const running = { status: { phase: 'running' } } as Task // only these fields are read
    expect(statusOf({ ...withOperation, rest: { task: running } }).operation).toEqual(operation)
    const untold = { ...withOperation, conditions: { Progressing: { status: 'True' as const } } }
    expect(statusOf({ ...untold, rest: { task: ended } }).operation).toEqual(operation)
  })

  const deadline = now - 60_000 + branchSettings.creatingMs
  test('fails at its deadline, and its error reports what it waited for', () => {
    const given = creating({ rest: down })
    expect(statusOf(given, deadline - 1).phase).toBe('creating')
    expect(planOf(given, deadline).actions).toEqual([])
    expect(statusOf(given, deadline)).toMatchObject({ phase: 'failed', operation: { name: 'create-branch' } })
    expect(condition(given, 'Ready', deadline)).toEqual([
      ...['False', 'DeadlineExceeded', 'the branch did not serve before its deadline: the pod starts'],
    ])
    const silent = { ...given, status: { ...given.status, conditions: [] }, conditions: {} }
    expect(condition(silent, 'Ready', deadline)[2]).toBe(
      'the branch did not serve before its deadline: no progress was reported',
    )
  })
  test('is checked at its deadline', () => {
    expect(planOf(creating({ rest: down })).requeueAt).toBe(deadline)
    expect(planOf(creating()).requeueAt).toBe(deadline)
    expect(planOf({}).requeueAt).toBeUndefined()
  })
  test('does not fail at its deadline if it serves', () => {
    expect(statusOf(creating(), deadline).phase).toBe('available')
    expect(statusOf({ rest: down }, deadline).phase).toBe('available')
  })
  test('has no deadline without status.source', () => {
    const given = creating({ rest: down, status: { source: undefined } })
    expect([planOf(given, deadline).requeueAt, statusOf(given, deadline).phase]).toEqual([undefined, 'creating'])
  })
  test('fails if its volume is lost', () => {
    const lost = creating({ rest: { ...down, children: { ...children, claim: undefined } } })
    expect(condition(lost, 'Ready').slice(0, 2)).toEqual(['False', 'VolumeLost'])
    expect(statusOf(lost).phase).toBe('failed')
  })

  describe('with a prebranch backup', () => {
    const { [systemIdentifierAnnotation]: _, ...objectAnnotations } = claim.metadata.annotations ?? {}
    const made = { ...claim, metadata: { ...claim.metadata, annotations: objectAnnotations } }
    const unbound = { ...made, status: { phase: 'Pending' } }
    const waiting = (its: Backup | undefined, of = unbound): GivenBranch =>
      creating({
        status: { volume: undefined },
        rest: { ...down, backup: its, children: { ...children, claim: of } },
      })
    const removal = { do: 'delete', kind: 'Backup', name: 'prebranch', namespace: 'n', uid: 'b' }
    test.each<[string, GivenBranch, boolean]>([
      ['fails if the backup is deleted before the volume is bound', waiting(undefined), true],
      [
        'fails if the backup fails before the volume is bound',
        waiting({ ...backup, status: { phase: 'failed' } }),
        true,
      ],
      ["fails if a foreign backup has the prebranch backup's name", waiting(foreign), true],
      ['does not fail while the backup exists', waiting(backup), false],
      [
        'does not fail if the backup is deleted after the claim is bound',
        waiting(undefined, { ...made, status: { phase: 'Bound' } }),
        false,
      ],
      [
        'does not fail if the backup is deleted after the volume is recorded',
        creating({ rest: { ...down, backup: undefined } }),
        false,
      ],
    ])('%s', (_, given, isLost) => {
      expect(condition(given, 'Ready')[1] === 'SnapshotLost').toBe(isLost)
      expect(statusOf(given).phase).toBe(isLost ? 'failed' : 'creating')
    })
    const keeping: ManagedDatabase = {
      ...root,
      spec: { ...root.spec, backup: { durable: false, retention: { hot: { prebranch: { days: 3 } } } } },
    }
    const others: ManagedDatabase = {
      ...root,
      spec: { ...root.spec, backup: { durable: false, retention: { hot: { user: { days: 3 } } } } },
    }
    test.each<[string, GivenBranch, boolean]>([
      ['deletes the backup after the volume is bound', { rest: { backup } }, true],
      ['keeps the backup until the volume is bound', waiting(backup), false],
      ['keeps a foreign backup', { rest: { backup: foreign } }, false],
      [
        'keeps the backup if the database has a retention for prebranch backups',
        { rest: { backup, root: keeping } },
        false,
      ],
      [
        'deletes the backup if the database has a retention only for other purposes',
        { rest: { backup, root: others } },
        true,
      ],
      ['deletes the backup if the database no longer exists', { rest: { backup, root: undefined } }, true],
    ])('%s', (_, given, goes) => {
      expect(planOf(given).actions.some(action => action.do === 'delete' && action.kind === 'Backup')).toBe(goes)
      if (goes) expect(planOf(given).actions).toContainEqual(removal)
    })
  })
})

describe('a branch that was connectable', () => {
  const since = (ms: number): GivenBranch => ({
    rest: down,
    conditions: { Ready: { status: 'False', lastTransitionTime: ago(ms) } },
  })
  test('keeps its phase for a minute after it stops serving', () => {
    expect(statusOf({ rest: down })).toMatchObject({ phase: 'available' })
    expect(planOf({ rest: down }).requeueAt).toBe(now + 60_000)
    expect([statusOf(since(59_000)).phase, planOf(since(59_000)).requeueAt]).toEqual(['available', now + 1_000])
    expect([statusOf(since(60_000)).phase, planOf(since(60_000)).requeueAt]).toEqual(['failed', undefined])
  })
  test('is not deleted after its phase becomes failed, and can serve again', () => {
    expect(statusOf({ ...since(60_000), status: { phase: 'failed' } }).phase).toBe('failed')
    expect(planOf(since(60_000)).actions).not.toContainEqual({ do: 'finish-deletion' })
    expect(statusOf({ status: { phase: 'failed' } }).phase).toBe('available')
    expect(statusOf({ ...since(1_000), status: { phase: 'failed' } }).phase).toBe('failed')
    expect(statusOf({ ...since(1_000), status: { phase: undefined } }).phase).toBe('available')
  })
  test('gets the phase failed at once if its volume is lost, and keeps status.volume', () => {
    const lost = { rest: { ...down, children: { ...children, claim: undefined } } }
    expect(statusOf(lost)).toMatchObject({
      phase: 'failed',
      volume: reconciled.volume,
      connectableAt: reconciled.connectableAt,
    })
    expect(condition(lost, 'Ready')[1]).toBe('VolumeLost')
    // Progressing still reports the completed creation.
    expect(condition(lost, 'Progressing')[1]).toBe('Completed')
  })
})

describe('the status of a branch', () => {
  test('gets endpoint, domain and instances again if they are missing, and reports observedGeneration', () => {
    expect(statusOf({ status: { endpoint: undefined, domain: undefined, instances: undefined } })).toEqual(reconciled)
    expect(statusOf({ metadata: { generation: 7 } }).observedGeneration).toBe(7)
    const { generation: _, ...metadata } = serving.branch.metadata
    expect(
      statusOf({ metadata: { ...metadata, generation: undefined }, status: { observedGeneration: 3 } }),
    ).toMatchObject({ observedGeneration: 3 })
  })
  test('keeps its address if the region no longer exists', () => {
    expect(statusOf({ rest: { region: undefined } })).toMatchObject({
      ...{ endpoint: reconciled.endpoint, domain: reconciled.domain },
    })
  })
  test("has the node of the branch's pod", () => {
    expect(statusOf({}).instances).toEqual([{ id: pod.name, role: 'primary' }])
    expect(statusOf({ rest: { pod: { ...pod, node: 'n' } } }).instances).toEqual([
      { id: pod.name, role: 'primary', node: 'n' },
    ])
    expect(statusOf({ rest: down }).instances).toEqual([])
  })
  test('updates storageUsedBytes only after a change of more than 1 MiB and more than 5 %', () => {
    expect(statusOf({ status: { storageUsedBytes: 1 } }).storageUsedBytes).toBe(8_000_000)
    expect(statusOf({ status: { storageUsedBytes: 7_500_000 } }).storageUsedBytes).toBe(7_500_000)
    expect(statusOf({ rest: { dataBytes: undefined } }).storageUsedBytes).toBe(8_000_000)
  })
  test('reports the changes that wait for a restart', () => {
    const older = { rest: { pod: { ...pod, template: 'older' } } }
    expect(statusOf(older).pendingRestart).toHaveLength(1)
    expect(condition(older, 'RestartPending')[0]).toBe('True')
    expect(condition({}, 'RestartPending')).toEqual([undefined, undefined, undefined])
    expect(statusOf({ status: { pendingRestart: statusOf(older).pendingRestart } }).pendingRestart).toBeUndefined()
  })
  test('reports the configuration that Postgres refused', () => {
    const answer = postgres?.answer
    if (answer?.state !== 'answered') throw new Error('Postgres did not answer')
    const configuration = {
      ...answer.configuration,
      isMounted: true,
      errors: ['max_connections'],
      refused: answer.configuration.onDisk,
    }
    const refused = { ...postgres, answer: { ...answer, configuration } } as Observed['postgres']
    expect(condition({ rest: { postgres: refused } }, 'ConfigurationRefused')[0]).toBe('True')
    expect(condition({}, 'ConfigurationRefused')[0]).toBeUndefined()
  })
  test('is planned with what the branch waits for: Postgres, or gateways that have not acknowledged the route', () => {
    expect(planOf({ rest: { postgres: undefined, isAtRest: false } }).awaitsPostgres).toBe(true)
    const route = serving.route && { ...serving.route, acknowledged: false, waitingFor: ['g'] }
    const waiting = creating({ rest: { route, isAtRest: false } })
    expect(planOf(waiting)).toMatchObject({ awaitsGateways: true, awaitsPostgres: false })
    expect(condition(waiting, 'Progressing')).toEqual(['True', 'OpeningEndpoint', 'waiting for g'])
    expect(planOf({}).awaitsGateways).toBe(false)
  })
  test('is planned again after 30 s while the node of the branch does not report', () => {
    const node = { name: 'n', silentSince: timestamp(now - 1_000), isOutOfService: false }
    expect(planOf({ rest: { node } }).requeueAt).toBe(now + 30_000)
  })
})

describe('a restart', () => {
  const waits: GivenBranch = { rest: { podSettings: { ...serving.podSettings, priorityClassName: 'databases' } } }
  const windowId = '2026-01-03T03:00:00.000Z'
  const maintenance = { restart: windowId, startedAt: ago(0) }
  /** The pod template that the plan applies; undefined if the plan does not change it. */
  const templateOf = (given: GivenBranch) => {
    const [apply] = planOf(given).actions.filter(action => action.do === 'apply' && action.kind === 'StatefulSet')
    if (apply?.do !== 'apply' || apply.kind !== 'StatefulSet') return undefined
    return apply.draft.spec?.template
  }

  test('is not started by a pending change; the status reports the change', () => {
    expect(templateOf(waits)).toBeUndefined()
    expect(statusOf(waits).pendingRestart).toMatchObject([{ reason: 'PodTemplate' }])
    expect(condition(waits, 'RestartPending')[0]).toBe('True')
  })
  test.each<[string, GivenBranch, string]>([
    ['that is requested', { metadata: { annotations: { 'espalier.dev/restart': 'now' } } }, 'espalier.dev/restart'],
    ["in the region's maintenance window", { status: { maintenance } }, 'espalier.dev/maintenance'],
  ])('%s applies the pending change', (_, given, annotation) => {
    const template = templateOf({ ...waits, ...given })
    expect(template?.spec?.priorityClassName).toBe('databases')
    expect(template?.metadata?.annotations?.[annotation]).toMatch(/now|03:00/)
  })
  test('is repeated only if the annotation gets another value', () => {
    const restartRequested: GivenBranch = { metadata: { annotations: { 'espalier.dev/restart': 'now' } } }
    const had = { pod: { ...pod, restartAnnotations: { ...pod.restartAnnotations, restart: 'now' } } }
    const stood = (name: string) => planOf({ ...restartRequested, rest: name === 'now' ? had : {} }).actions.length
    expect(stood('before')).toBeGreaterThan(0)
    expect(planOf({ ...restartRequested, rest: had }).actions.some(action => action.do === 'delete')).toBe(false)
  })
  test('in the maintenance window ends at once if no change is pending', () => {
    expect(templateOf({ status: { maintenance } })).toBeUndefined()
    expect(statusOf({ status: { maintenance } }).maintenance).toEqual({
      ...maintenance,
      ...{ endedAt: ago(0), outcome: 'completed' },
    })
  })
  test('in the maintenance window fails after maintenanceMs; the branch has the phase failed until it serves again', () => {
    const given = {
      status: { maintenance },
      conditions: { Ready: { status: 'False' as const, lastTransitionTime: ago(0) } },
      rest: down,
    }
    const end = now + branchSettings.maintenanceMs
    expect(statusOf(given, end - 1)).toMatchObject({ phase: 'available', maintenance })
    expect(statusOf(given, end)).toMatchObject({ phase: 'failed', maintenance: { outcome: 'failed' } })
    const failed = { ...maintenance, endedAt: ago(0), outcome: 'failed' as const }
    expect(statusOf({ status: { maintenance: failed } }).maintenance?.outcome).toBe('completed')
  })
})
