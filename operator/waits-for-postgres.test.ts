/**
 * Requests every operation that needs Postgres while Postgres restarts, as after a kill of the postmaster. Each
 * operation waits, reports that in its Task, and succeeds. No operation may fail if it could have waited.
 */
import { describe, expect, test } from 'vitest'
import {
  annotations,
  apiVersion,
  type Backup,
  childNames,
  renderRequestedRestore,
  rotationAnnotations,
  type Task,
} from '../crds/index.ts'
import type { PostgresAccess } from './member/postgres/access.ts'
import { conditionOf } from './objects/conditions.ts'
import { PostgresError } from './postgres/administrator.ts'
import { at, useBackups } from './testing/backups.ts'
import { useBranches } from './testing/branches.ts'
import { isPhase, useInstallation } from './testing/fixture.ts'
import { editSpec, eventually } from './testing/installation.ts'

const it = useInstallation()
const { request, ended, when, dataOf, taken, restarted } = useBackups(it)
const branches = useBranches(it)

const untilReconciled = (name: string, phase = 'available') =>
  it.when(name, found => isPhase(phase)(found) && found.status?.operation === undefined)
const refusal = () => new PostgresError('network', 'connect ECONNREFUSED 127.0.0.1:5432', 'ECONNREFUSED')

const restore = async (databaseName: string, backupName: string) =>
  it.cluster().create('Restore', {
    apiVersion,
    kind: 'Restore',
    metadata: at(`${databaseName}-back`),
    spec: { databaseName, databaseId: await it.idOf(databaseName), target: { backupName } },
  })

/** Each call to each server fails this many times before it succeeds. Probes report the failures. */
function refusingAtFirst(access: PostgresAccess, times: number): PostgresAccess {
  const counts = new Map<string, number>()
  const isRefused = (method: string, host: string): boolean => {
    const key = `${method} ${host}`
    const count = (counts.get(key) ?? 0) + 1
    counts.set(key, count)
    return count <= times
  }
  const refuse =
    <Arguments extends [{ host: string }, ...unknown[]], Result>(
      method: string,
      call: (...args: Arguments) => Promise<Result>,
    ) =>
    async (...args: Arguments): Promise<Result> => {
      if (isRefused(method, args[0].host)) throw refusal()
      return call(...args)
    }
  return {
    ...access,
    observe: async (target, options, signal) =>
      isRefused('observe', target.host)
        ? { reachable: false, reason: 'network', message: refusal().message }
        : access.observe(target, options, signal),
    login: async (target, password, signal) =>
      isRefused('login', target.host)
        ? { result: 'unreachable', message: refusal().message }
        : access.login(target, password, signal),
    ensureRoles: refuse('ensureRoles', access.ensureRoles),
    dropInherited: refuse('detach', access.dropInherited),
    open: refuse('open', access.open),
    reload: refuse('reload', access.reload),
    checkpoint: refuse('checkpoint', access.checkpoint),
  }
}

const endOf = (name: string, task: string) =>
  eventually(
    async () => (await it.tasksOf(name)).find(({ spec, status }) => spec.name === task && status?.finishedAt),
    found => found !== undefined,
    { withinMs: 30_000 },
  )
const outcome = (task: Task | undefined) => [task?.spec.name, task?.status?.phase, task?.status?.error]

describe('a Postgres that refuses connections for a moment', () => {
  test.each<[string, Partial<Backup['spec']>]>([
    ['a user', {}],
    ['a schedule', { purpose: 'scheduled' }],
    ['a restore', { purpose: 'postrestore' }],
  ])('makes a backup of %s wait, and the backup reports it', async (whose, spec) => {
    const name = `away${whose.replaceAll(/\W/g, '')}`
    await it.create(name)
    const data = await dataOf(name)
    data.isDown = true
    await request(`${name}-1`, name, spec)
    const waiting = await when(
      `${name}-1`,
      ({ status }) => conditionOf(status, 'DatabaseServing')?.reason === 'NotServing',
    )
    expect(conditionOf(waiting?.status, 'Progressing')).toMatchObject({
      reason: 'AwaitingDatabase',
      message: expect.stringContaining('ECONNREFUSED'),
    })
    data.isDown = false
    const done = await ended(`${name}-1`)
    expect([done?.status?.phase, conditionOf(done?.status, 'DatabaseServing')]).toEqual(['completed', undefined])
    if (spec.purpose !== undefined) return
    const task = await endOf(`${name}-1`, 'backup-managed')
    expect(outcome(task)).toEqual(['backup-managed', 'succeeded', undefined])
    const steps = task?.status?.messages?.map(({ step }) => step) ?? []
    expect(steps.filter(step => step === 'AwaitingDatabase')).toHaveLength(1)
  })

  test('makes a branch wait, and the branch reports it', async () => {
    await it.create('forked')
    const data = await dataOf('forked')
    data.isDown = true
    await branches.request('fork', 'forked')
    const waiting = await branches.when(
      'fork',
      ({ status }) => conditionOf(status, 'Progressing')?.reason === 'AwaitingDatabase',
    )
    expect(conditionOf(waiting.status, 'Progressing')?.message).toContain('ECONNREFUSED')
    data.isDown = false
    await branches.when('fork', branches.isPhase('available'))
    const task = await endOf('fork', 'create-branch')
    expect(outcome(task)).toEqual(['create-branch', 'succeeded', undefined])
    expect(task?.status?.messages?.find(({ step }) => step === 'AwaitingDatabase')?.text).toContain('ECONNREFUSED')
  })

  test('makes a branch wait whose source branch is reported as failed meanwhile', async () => {
    await it.create('stem')
    await branches.made('twig', 'stem')
    const claim = await branches.child('PersistentVolumeClaim', 'twig', 'claim')
    const data = it.workload().postgres.data.get(claim?.metadata.uid ?? '')
    if (data === undefined) throw new Error('there are no data')
    data.isDown = true
    const sourceBranch = { name: 'twig', id: await branches.idOf('twig') }
    await branches.request('leaf', 'stem', { sourceBranch, depth: 2 })
    await branches.when('leaf', ({ status }) => conditionOf(status, 'Progressing')?.reason === 'AwaitingDatabase')
    data.isDown = false
    await branches.when('leaf', branches.isPhase('available'))
  })
})

test('a restore does not wait for a backup that waits for the Postgres that it replaces', async () => {
  await it.create('broken')
  await taken('broken-1', 'broken')
  const data = await dataOf('broken')
  data.isDown = true
  await request('broken-2', 'broken')
  await when('broken-2', ({ status }) => conditionOf(status, 'DatabaseServing') !== undefined)
  await it.when('broken', ({ status }) => conditionOf(status, 'Ready')?.status === 'False')
  await restore('broken', 'broken-1')
  expect(outcome(await endOf('broken', 'restore-managed'))[1]).toBe('succeeded')
  expect((await ended('broken-2'))?.status?.phase).toBe('completed')
})

test.each<[string, boolean]>([
  ['before it stops Postgres', false],
  ['after it has stopped Postgres', true],
])('a branch requested during a restore, %s, is created', async (_, isFenced) => {
  const name = isFenced ? 'exchanged' : 'exchanging'
  await it.create(name)
  await taken(`${name}-1`, name)
  it.workload().snapshots.making = { mode: 'held' }
  if (!isFenced) await branches.request(`${name}-a`, name)
  await editSpec(it.cluster(), name, spec => spec, {
    [annotations.restore]: renderRequestedRestore({ name: `${name}-back`, backupName: `${name}-1` }),
  })
  const running = async () => it.cluster().get('Restore', at(`${name}-back`))
  await eventually(running, found => (isFenced ? found?.status?.fencedAt !== undefined : found !== undefined))
  await branches.request(`${name}-b`, name)
  it.workload().snapshots.making = { mode: 'making' }
  it.workload().resnapshot()
  await branches.when(`${name}-b`, branches.isPhase('available'))
  expect(outcome(await endOf(`${name}-b`, 'create-branch'))[1]).toBe('succeeded')
  expect(outcome(await endOf(name, 'restore-managed'))[1]).toBe('succeeded')
})

describe('a suspension', () => {
  test('waits for an earlier backup, even if Postgres restarts meanwhile', async () => {
    await it.create('dozing')
    it.workload().snapshots.making = { mode: 'held' }
    await request('dozing-1', 'dozing')
    await when('dozing-1', ({ status }) => status?.phase === 'running')
    await request('dozing-2', 'dozing')
    await editSpec(it.cluster(), 'dozing', spec => ({ ...spec, suspended: true }))
    const key = at(childNames.pod(await it.idOf('dozing'), 1))
    const before = await it.cluster().get('Pod', key)
    await it.cluster().delete('Pod', key)
    await eventually(
      () => it.cluster().get('Pod', key),
      found => found !== undefined && found.metadata.uid !== before?.metadata.uid,
    )
    it.workload().snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    await untilReconciled('dozing', 'suspended')
    for (const name of ['dozing-1', 'dozing-2']) expect((await ended(name))?.status?.phase).toBe('completed')
  })
})

describe('a Postgres that refuses the first request of each kind', () => {
  test('does not make an operation fail', async () => {
    await restarted({ administrator: refusingAtFirst(it.workload().postgres.access, 2) })
    await it.create('all')
    const annotate = (key: string, value: string) => editSpec(it.cluster(), 'all', spec => spec, { [key]: value })
    await untilReconciled('all')
    await taken('all-1', 'all')
    await branches.made('all-branch', 'all')

    await annotate(rotationAnnotations.app, 'first')
    expect(outcome(await endOf('all', 'rotate-password-managed'))[1]).toBe('succeeded')
    await editSpec(it.cluster(), 'all', spec => ({ ...spec, size: { name: 'large', version: 1 } }))
    expect(outcome(await endOf('all', 'update-managed-size'))[1]).toBe('succeeded')
    await annotate(annotations.restart, new Date().toISOString())
    expect(outcome(await endOf('all', 'restart-managed'))[1]).toBe('succeeded')
    await restore('all', 'all-1')
    expect(outcome(await endOf('all', 'restore-managed'))[1]).toBe('succeeded')
    await untilReconciled('all')
    await editSpec(it.cluster(), 'all', spec => ({ ...spec, suspended: true }))
    await untilReconciled('all', 'suspended')
    await editSpec(it.cluster(), 'all', spec => ({ ...spec, suspended: false }))
    await untilReconciled('all')

    const failed = (await it.tasksOf('all')).filter(({ status }) => status?.phase === 'failed')
    expect(failed.map(outcome)).toEqual([])
    const { items } = await it.cluster().list('Backup', { namespace: 'databases' })
    const ofAll = items.filter(({ spec }) => spec.databaseName === 'all')
    const phases = await Promise.all(ofAll.map(async ({ metadata }) => (await ended(metadata.name))?.status?.phase))
    expect(ofAll.map(({ spec }) => spec.purpose).toSorted()).toEqual(['postrestore', 'prerestore', 'user'])
    expect(new Set(phases)).toEqual(new Set(['completed']))
    await restarted()
  })
})
