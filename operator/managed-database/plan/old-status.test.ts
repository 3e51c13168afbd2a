/**
 * Restored objects (by Velero, from etcd, by hand) have old statuses. Whatever such a status contains, it neither stops
 * nor restarts a database that serves, and creates no Task.
 */
import { describe, expect, test } from 'vitest'
import { annotations, type ManagedDatabase, type ManagedDatabaseStatus, visiblePhase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type ClusterState, emptyClusterState, observedIn, round, settings } from '../../testing/cluster-state.ts'
import { plan } from './index.ts'

const database = ({ database: found }: ClusterState): ManagedDatabase => {
  if (found === undefined) throw new Error('the database is there')
  return found
}
const statusOf = (clusterState: ClusterState): ManagedDatabaseStatus => database(clusterState).status ?? {}
const rounds = (clusterState: ClusterState, count = 15) => {
  for (let index = 0; index < count; index++) round(clusterState)
  return clusterState
}
const podOf = ({ objects }: ClusterState) => [...objects].find(([key]) => key.startsWith('Pod/'))?.[1]

const serving = (spec: Partial<ManagedDatabase['spec']> = {}): ClusterState => rounds(emptyClusterState(spec))

const requestRestart = (clusterState: ClusterState, restart: string) => {
  const found = database(clusterState)
  const { generation = 1 } = found.metadata
  const metadata = { ...found.metadata, generation: generation + 1, annotations: { [annotations.restart]: restart } }
  clusterState.database = { ...found, metadata }
}
const restarted = (clusterState: ClusterState, restart: string) => {
  const before = podOf(clusterState)?.metadata.uid
  requestRestart(clusterState, restart)
  rounds(clusterState)
  expect(podOf(clusterState)?.metadata.uid).not.toBe(before)
}

/** Plans the recreated object for a while: the pod never changes, and no Task is created. */
function expectUntouched(clusterState: ClusterState, what: { mayReport?: true } = {}): void {
  const [pod, tasks] = [podOf(clusterState)?.metadata.uid, clusterState.tasks.size]
  for (let count = 0; count < 15; count++) {
    const passed = round(clusterState)
    for (const action of passed?.planned.actions ?? []) {
      if (action.do === 'delete') expect(action.kind).not.toBe('Pod')
      if (action.do === 'apply' && action.kind === 'StatefulSet') expect(action.draft.spec?.replicas).toBe(1)
    }
    expect(podOf(clusterState)?.metadata.uid).toBe(pod)
  }
  expect(visiblePhase(database(clusterState))).toBe('available')
  if (!what.mayReport) expect(clusterState.tasks.size).toBe(tasks)
}

const withStatus = (clusterState: ClusterState, status: Partial<ManagedDatabaseStatus>) => {
  clusterState.database = { ...database(clusterState), status: { ...statusOf(clusterState), ...status } }
}
const ago = (clusterState: ClusterState, minutes: number) => new Date(clusterState.now - minutes * 60_000).toISOString()

describe('an old status of a restart in a maintenance window', () => {
  const waiting = [{ reason: 'Image', message: 'another image', since: '2025-01-01T00:00:00Z' }]
  const pendingBySettings = [{ reason: 'Settings', message: 'shared_buffers', since: '2025-01-01T00:00:00Z' }]

  test.each<[string, (clusterState: ClusterState) => Partial<ManagedDatabaseStatus>]>([
    [
      'that completed',
      clusterState => ({
        maintenance: {
          restart: 'w',
          startedAt: ago(clusterState, 9),
          endedAt: ago(clusterState, 8),
          outcome: 'completed',
        },
      }),
    ],
    [
      'that failed',
      clusterState => ({
        maintenance: {
          restart: 'w',
          startedAt: ago(clusterState, 9),
          endedAt: ago(clusterState, 8),
          outcome: 'failed',
        },
      }),
    ],
    ['that ran long ago', clusterState => ({ maintenance: { restart: 'w', startedAt: ago(clusterState, 999) } })],
    [
      'that runs, and would apply nothing',
      clusterState => ({ maintenance: { restart: 'w', startedAt: ago(clusterState, 1) } }),
    ],
    [
      'with a pending restart for an image',
      clusterState => ({ maintenance: { restart: 'w', startedAt: ago(clusterState, 1) }, pendingRestart: waiting }),
    ],
    [
      'with a pending restart for settings',
      clusterState => ({
        maintenance: { restart: 'w', startedAt: ago(clusterState, 1) },
        pendingRestart: pendingBySettings,
      }),
    ],
  ])('%s restarts nothing', (_, status) => {
    const clusterState = serving()
    withStatus(clusterState, status(clusterState))
    expectUntouched(clusterState)
    expect(statusOf(clusterState).maintenance?.endedAt).toBeDefined()
    expect(statusOf(clusterState).pendingRestart).toBeUndefined()
  })

  test('for pending settings queries Postgres first', () => {
    const clusterState = serving()
    withStatus(clusterState, {
      maintenance: { restart: 'w', startedAt: ago(clusterState, 1) },
      pendingRestart: pendingBySettings,
    })
    const planned = plan({ ...observedIn(clusterState), postgres: undefined }, clusterState.now, settings)
    expect(planned).toMatchObject({ awaitsPostgres: true, status: { phase: 'available', operation: undefined } })
    expect(planned.actions.filter(action => action.do === 'delete')).toEqual([])
    expect(planned.status.maintenance?.endedAt).toBeUndefined()
  })

  test('that is due restarts once, and its end changes nothing else', () => {
    const clusterState = serving()
    const before = podOf(clusterState)?.metadata.uid
    clusterState.podSettings = { ...clusterState.podSettings, priorityClassName: 'databases' }
    rounds(clusterState, 2)
    expect(statusOf(clusterState).pendingRestart).toHaveLength(1)
    withStatus(clusterState, { maintenance: { restart: 'w', startedAt: ago(clusterState, 0) } })
    rounds(clusterState)
    expect(podOf(clusterState)?.metadata.uid).not.toBe(before)
    expect(statusOf(clusterState)).toMatchObject({ phase: 'available', maintenance: { outcome: 'completed' } })
    expectUntouched(clusterState)
  })
})

describe('an old status of a requested restart', () => {
  const putBack = (clusterState: ClusterState, { metadata, spec, status }: ManagedDatabase) => {
    const generation = (database(clusterState).metadata.generation ?? 1) + 1
    clusterState.database = {
      ...database(clusterState),
      metadata: { ...metadata, generation },
      spec,
      ...(status ? { status } : {}),
    }
  }

  test('that was done before another one restarts nothing', () => {
    const clusterState = serving()
    restarted(clusterState, 'first')
    const backup = structuredClone(database(clusterState))
    restarted(clusterState, 'second')
    putBack(clusterState, backup)
    expectUntouched(clusterState)
  })

  test('without status restarts nothing', () => {
    const clusterState = serving()
    restarted(clusterState, 'first')
    const { metadata, spec } = structuredClone(database(clusterState))
    restarted(clusterState, 'second')
    putBack(clusterState, { ...database(clusterState), metadata, spec, status: {} })
    // The database counts as being created, which is an operation.
    expectUntouched(clusterState, { mayReport: true })
  })

  test('that was running when it was copied long ago restarts nothing', () => {
    const clusterState = serving()
    requestRestart(clusterState, 'first')
    round(clusterState)
    const backup = structuredClone(database(clusterState))
    expect(backup.status?.operation?.name).toBe('restart-managed')
    rounds(clusterState)
    restarted(clusterState, 'second')
    clusterState.now += settings.deadlines.modifyingMs
    putBack(clusterState, backup)
    expectUntouched(clusterState)
  })

  test('that missed its deadline fails and is reported', () => {
    const clusterState = serving()
    requestRestart(clusterState, 'first')
    round(clusterState)
    const { operation } = statusOf(clusterState)
    const before = podOf(clusterState)?.metadata.uid
    clusterState.now = Date.parse(operation?.deadlineAt ?? '')
    const late = {
      ...observedIn(clusterState),
      pod: { ...observedIn(clusterState).pod, restartAnnotations: {} },
    } as ReturnType<typeof observedIn>
    const { status, actions } = plan(late, clusterState.now, settings)
    expect(actions.filter(action => action.do === 'delete')).toEqual([])
    expect(conditionOf(status, 'Progressing')).toMatchObject({
      status: 'False',
      reason: 'DeadlineExceeded',
      message: expect.stringMatching(/not restarted by .*: request the restart again/),
    })
    expect(before).toBeDefined()
  })
})

describe('an old status of a size', () => {
  test('that was applied before, on a volume smaller than requested now, restarts nothing', () => {
    const clusterState = serving({ size: { name: 'large', version: 1 } })
    const [key, claim] = [...clusterState.objects].find(([key]) => key.startsWith('PersistentVolumeClaim/')) ?? []
    if (key === undefined || claim === undefined) throw new Error('the claim is missing')
    clusterState.growth = 'held'
    const requests = { storage: '1Gi' }
    const status = { phase: 'Bound', capacity: requests }
    clusterState.objects.set(key, { ...claim, spec: { ...(claim.spec as object), resources: { requests } }, status })
    withStatus(clusterState, { size: { name: 'small', version: 1 } })
    expectUntouched(clusterState)
    expect(statusOf(clusterState).size?.name).toBe('large')
  })
})

describe('an old status of a volume', () => {
  test.each<[string, (volume: NonNullable<ManagedDatabaseStatus['volume']>) => typeof volume]>([
    ['from before its claim was replaced', volume => ({ ...volume, uid: 'older', volumeName: 'older' })],
    [
      'of another database that had its name',
      () => ({ claim: 'db-other-1-data', uid: 'other', volumeName: 'other', systemIdentifier: 'other' }),
    ],
  ])('%s, stops nothing and is corrected', (_, older) => {
    const clusterState = serving()
    const { volume } = statusOf(clusterState)
    if (volume === undefined) throw new Error('the record is missing')
    withStatus(clusterState, { volume: older(volume) })
    expectUntouched(clusterState)
    expect(statusOf(clusterState).volume).toMatchObject(volume)
  })
})

test('an old operation, an old phase or a missing status restarts nothing', () => {
  const clusterState = serving()
  const hash = statusOf(clusterState).appliedHash ?? ''
  const operation = {
    taskId: '11111111-2222-4333-8444-555555555555',
    name: 'update-managed-size' as const,
    hash,
    startedAt: ago(clusterState, 99),
    deadlineAt: ago(clusterState, 89),
  }
  for (const phase of ['modifying', 'suspended', 'suspending', 'resuming', 'degraded', 'failed'] as const) {
    withStatus(clusterState, { phase, operation })
    expectUntouched(clusterState, { mayReport: true })
  }
  clusterState.database = { ...database(clusterState), status: {} }
  expectUntouched(clusterState, { mayReport: true })
})
