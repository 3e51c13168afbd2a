/** A branch whose data are cut: when it is connectable, what it is given up for, and what is said of it from then on. */
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
import { branchSettings, type GivenBranch, settledBranch } from '../../testing/settled-branch.ts'
import type { Observed } from '../observed.ts'

const { now, ago, root, status: settled, observedOf, planOf } = settledBranch()
const serving = observedOf()
const { children, pod, postgres } = serving
const { claim, statefulSet } = children
if (claim === undefined || pod === undefined || statefulSet === undefined) throw new Error('it serves')

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
const theirs: Backup = { ...backup, metadata: { ...backup.metadata, labels: {} } }
const ended = { status: { phase: 'succeeded', finishedAt: ago(0) } } as Task // which is all that is looked at

describe('on its way', () => {
  test('it says what it waits for', () => {
    const given = creating({ rest: down })
    expect(statusOf(given)).toMatchObject({ phase: 'creating', operation: { name: 'create-branch' } })
    expect(statusOf(given).connectableAt).toBeUndefined()
    expect(condition(given, 'Progressing')).toEqual(['True', 'Starting', 'waiting for the pod'])
    expect(condition(given, 'Ready')[0]).toBe('False')
  })
  test('it is connectable, and billed, from the first pass on in which it serves', () => {
    const created = statusOf(creating())
    expect(created).toMatchObject({ phase: 'available', connectableAt: preciseTime(now) })
    expect(created.creationDuration).toMatch(/^[0-9]+[hms]/)
    const before = { connectableAt: ago(9_000), creationDuration: '3s' }
    expect(statusOf({ status: before }).creationDuration).toBe('3s')
    expect(condition(creating(), 'Progressing')).toEqual(['False', 'Completed', 'the branch has become connectable'])
    expect(statusOf({ status: { connectableAt: ago(9_000) } }).connectableAt).toBe(ago(9_000))
  })
  test('its creation is told as done before its Task has ended, and stays until that has', () => {
    const operation = { taskId: 't', name: 'create-branch' as const, startedAt: ago(9_000) }
    expect(statusOf(creating({ status: { operation } })).operation).toEqual(operation)
    const told: GivenBranch = { status: { operation } }
    expect(statusOf(told).operation).toEqual(operation)
    expect(statusOf({ ...told, rest: { task: ended } }).operation).toBeUndefined()
    const running = { status: { phase: 'running' } } as Task // likewise
    expect(statusOf({ ...told, rest: { task: running } }).operation).toEqual(operation)
    const untold = { ...told, conditions: { Progressing: { status: 'True' as const } } }
    expect(statusOf({ ...untold, rest: { task: ended } }).operation).toEqual(operation)
  })

  const deadline = now - 60_000 + branchSettings.creatingMs
  test('it is given up at its deadline, with what it waited for', () => {
    const given = creating({ rest: down })
    expect(statusOf(given, deadline - 1).phase).toBe('creating')
    expect(planOf(given, deadline).actions).toEqual([])
    expect(statusOf(given, deadline)).toMatchObject({ phase: 'failed', operation: { name: 'create-branch' } })
    expect(condition(given, 'Ready', deadline)).toEqual([
      ...['False', 'DeadlineExceeded', 'it did not come up in time: the pod starts'],
    ])
    const silent = { ...given, status: { ...given.status, conditions: [] }, conditions: {} }
    expect(condition(silent, 'Ready', deadline)[2]).toBe('it did not come up in time: it does not serve')
  })
  test('it is looked at then', () => {
    expect(planOf(creating({ rest: down })).wakeAt).toBe(deadline)
    expect(planOf(creating()).wakeAt).toBe(deadline)
    expect(planOf({}).wakeAt).toBeUndefined()
  })
  test('it is given up no more once it serves', () => {
    expect(statusOf(creating(), deadline).phase).toBe('available')
    expect(statusOf({ rest: down }, deadline).phase).toBe('available')
  })
  test('it has no deadline where it is not known when its source was copied', () => {
    const given = creating({ rest: down, status: { source: undefined } })
    expect([planOf(given, deadline).wakeAt, statusOf(given, deadline).phase]).toEqual([undefined, 'creating'])
  })
  test('it is given up with its volume', () => {
    const lost = creating({ rest: { ...down, children: { ...children, claim: undefined } } })
    expect(condition(lost, 'Ready').slice(0, 2)).toEqual(['False', 'VolumeLost'])
    expect(statusOf(lost).phase).toBe('failed')
  })

  describe('of the snapshot that its volume is made from', () => {
    const { [systemIdentifierAnnotation]: _, ...marks } = claim.metadata.annotations ?? {}
    const made = { ...claim, metadata: { ...claim.metadata, annotations: marks } }
    const unbound = { ...made, status: { phase: 'Pending' } }
    const waiting = (its: Backup | undefined, of = unbound): GivenBranch =>
      creating({
        status: { volume: undefined },
        rest: { ...down, backup: its, children: { ...children, claim: of } },
      })
    const removal = { do: 'delete', kind: 'Backup', name: 'prebranch', namespace: 'n', uid: 'b' }
    test.each<[string, GivenBranch, boolean]>([
      ['is gone before there is a volume', waiting(undefined), true],
      ['has failed before', waiting({ ...backup, status: { phase: 'failed' } }), true],
      ['has another in its place', waiting(theirs), true],
      ['is there', waiting(backup), false],
      ['is gone once the claim has its volume', waiting(undefined, { ...made, status: { phase: 'Bound' } }), false],
      ['is gone once the volume is on record', creating({ rest: { ...down, backup: undefined } }), false],
    ])('nothing comes where it %s', (_, given, isLost) => {
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
      ['once the volume is bound', { rest: { backup } }, true],
      ['not before', waiting(backup), false],
      ['and only its own', { rest: { backup: theirs } }, false],
      ['not where the database says how long it is kept', { rest: { backup, root: keeping } }, false],
      ['where it says so of others', { rest: { backup, root: others } }, true],
      ['where there is no database any more', { rest: { backup, root: undefined } }, true],
    ])('it goes %s', (_, given, goes) => {
      expect(planOf(given).actions.some(action => action.do === 'delete' && action.kind === 'Backup')).toBe(goes)
      if (goes) expect(planOf(given).actions).toContainEqual(removal)
    })
  })
})

describe('one that was connectable', () => {
  const since = (ms: number): GivenBranch => ({
    rest: down,
    conditions: { Ready: { status: 'False', lastTransitionTime: ago(ms) } },
  })
  test('may not serve for a minute, as after a restart', () => {
    expect(statusOf({ rest: down })).toMatchObject({ phase: 'available' })
    expect(planOf({ rest: down }).wakeAt).toBe(now + 60_000)
    expect([statusOf(since(59_000)).phase, planOf(since(59_000)).wakeAt]).toEqual(['available', now + 1_000])
    expect([statusOf(since(60_000)).phase, planOf(since(60_000)).wakeAt]).toEqual(['failed', undefined])
  })
  test('is no unmade one by that, and serves again', () => {
    expect(statusOf({ ...since(60_000), status: { phase: 'failed' } }).phase).toBe('failed')
    expect(planOf(since(60_000)).actions).not.toContainEqual({ do: 'finish-deletion' })
    expect(statusOf({ status: { phase: 'failed' } }).phase).toBe('available')
    expect(statusOf({ ...since(1_000), status: { phase: 'failed' } }).phase).toBe('failed')
    expect(statusOf({ ...since(1_000), status: { phase: undefined } }).phase).toBe('available')
  })
  test('has failed at once with its volume, which is not written off', () => {
    const lost = { rest: { ...down, children: { ...children, claim: undefined } } }
    expect(statusOf(lost)).toMatchObject({
      phase: 'failed',
      volume: settled.volume,
      connectableAt: settled.connectableAt,
    })
    expect(condition(lost, 'Ready')[1]).toBe('VolumeLost')
    // Its creation stays what it was.
    expect(condition(lost, 'Progressing')[1]).toBe('Completed')
  })
})

describe('what is said of it', () => {
  test('is what is asked, and what is found', () => {
    expect(statusOf({ status: { endpoint: undefined, domain: undefined, instances: undefined } })).toEqual(settled)
    expect(statusOf({ metadata: { generation: 7 } }).observedGeneration).toBe(7)
    const { generation: _, ...metadata } = serving.branch.metadata
    expect(
      statusOf({ metadata: { ...metadata, generation: undefined }, status: { observedGeneration: 3 } }),
    ).toMatchObject({ observedGeneration: 3 })
  })
  test('keeps its address where there is no region any more', () => {
    expect(statusOf({ rest: { region: undefined } })).toMatchObject({
      ...{ endpoint: settled.endpoint, domain: settled.domain },
    })
  })
  test('names the node of its pod, where there is one', () => {
    expect(statusOf({}).instances).toEqual([{ id: pod.name, role: 'primary' }])
    expect(statusOf({ rest: { pod: { ...pod, node: 'n' } } }).instances).toEqual([
      { id: pod.name, role: 'primary', node: 'n' },
    ])
    expect(statusOf({ rest: down }).instances).toEqual([])
  })
  test('of its data is what has changed by enough to be told', () => {
    expect(statusOf({ status: { storageUsedBytes: 1 } }).storageUsedBytes).toBe(8_000_000)
    expect(statusOf({ rest: { dataBytes: undefined } }).storageUsedBytes).toBe(8_000_000)
  })
  test('tells what waits for a restart', () => {
    const older = { rest: { pod: { ...pod, template: 'older' } } }
    expect(statusOf(older).pendingRestart).toHaveLength(1)
    expect(condition(older, 'RestartPending')[0]).toBe('True')
    expect(condition({}, 'RestartPending')).toEqual([undefined, undefined, undefined])
    expect(statusOf({ status: { pendingRestart: statusOf(older).pendingRestart } }).pendingRestart).toBeUndefined()
  })
  test('tells what configuration Postgres refused', () => {
    const answer = postgres?.answer
    if (answer?.state !== 'answered') throw new Error('it serves')
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
  test('waits for Postgres, and for gateways, where only they can tell', () => {
    expect(planOf({ rest: { postgres: undefined, isAtRest: false } }).awaitsPostgres).toBe(true)
    const route = serving.route && { ...serving.route, acknowledged: false, waitingFor: ['g'] }
    const waiting = creating({ rest: { route, isAtRest: false } })
    expect(planOf(waiting)).toMatchObject({ awaitsGateways: true, awaitsPostgres: false })
    expect(condition(waiting, 'Progressing')).toEqual(['True', 'OpeningEndpoint', 'waiting for g'])
    expect(planOf({}).awaitsGateways).toBe(false)
  })
  test('has a time, which is that of its node as well', () => {
    const node = { name: 'n', silentSince: timestamp(now - 1_000), isOutOfService: false }
    expect(planOf({ rest: { node } }).wakeAt).toBe(now + 30_000)
  })
})

describe('a restart', () => {
  const waits: GivenBranch = { rest: { podSettings: { ...serving.podSettings, priorityClassName: 'databases' } } }
  const mark = '2026-01-03T03:00:00.000Z'
  const maintenance = { restart: mark, startedAt: ago(0) }
  /** The annotations of the next pod's template, after the pass that changes it. */
  const templateOf = (given: GivenBranch) => {
    const [apply] = planOf(given).actions.filter(action => action.do === 'apply' && action.kind === 'StatefulSet')
    if (apply?.do !== 'apply' || apply.kind !== 'StatefulSet') return undefined
    return apply.draft.spec?.template
  }

  test('is not made for what waits for one, which is told', () => {
    expect(templateOf(waits)).toBeUndefined()
    expect(statusOf(waits).pendingRestart).toMatchObject([{ reason: 'PodTemplate' }])
    expect(condition(waits, 'RestartPending')[0]).toBe('True')
  })
  test.each<[string, GivenBranch, string]>([
    ['that is asked for', { metadata: { annotations: { 'espalier.dev/restart': 'now' } } }, 'espalier.dev/restart'],
    ["in the region's window", { status: { maintenance } }, 'espalier.dev/maintenance'],
  ])('%s brings what has waited for it', (_, given, annotation) => {
    const template = templateOf({ ...waits, ...given })
    expect(template?.spec?.priorityClassName).toBe('databases')
    expect(template?.metadata?.annotations?.[annotation]).toMatch(/now|03:00/)
  })
  test('is asked for again by another word, and had once by the same', () => {
    const asked: GivenBranch = { metadata: { annotations: { 'espalier.dev/restart': 'now' } } }
    const had = { pod: { ...pod, marks: { ...pod.marks, restart: 'now' } } }
    const stood = (name: string) => planOf({ ...asked, rest: name === 'now' ? had : {} }).actions.length
    expect(stood('before')).toBeGreaterThan(0)
    expect(planOf({ ...asked, rest: had }).actions.some(action => action.do === 'delete')).toBe(false)
  })
  test('in a window that would bring nothing is none, and is over', () => {
    expect(templateOf({ status: { maintenance } })).toBeUndefined()
    expect(statusOf({ status: { maintenance } }).maintenance).toEqual({
      ...maintenance,
      ...{ endedAt: ago(0), outcome: 'completed' },
    })
  })
  test('in a window is waited for as long as it may take, and has failed after that until it has come right', () => {
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
