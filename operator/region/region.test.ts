/**
 * The maintenance window: when it is open, and what the operator restarts in it. Never more restarts at the same time
 * than the Region allows.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createInformer } from '../../cluster/informer/index.ts'
import {
  apiVersion,
  type Branch,
  branch as branchDefinition,
  desiredHash,
  desiredStateOf,
  labels,
  type ManagedDatabase,
  type ManagedDatabaseStatus,
  managedDatabase,
  type Turn,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { Operator } from '../index.ts'
import type { Candidate } from '../objects/maintenance-turn.ts'
import { branchDraft } from '../testing/branches.ts'
import { createCrashPoint } from '../testing/crash-point.ts'
import {
  databaseDraft,
  eventually,
  giveSnapshots,
  type Installation,
  openInstallation,
  silent,
  startTestOperator,
  testConfiguration,
  testNamespace,
} from '../testing/installation.ts'
import { admit, isOfInterest } from './admission.ts'
import { lengthOf, windowAt } from './window.ts'

const at = (text: string) => Date.parse(text)

describe('the window', () => {
  const saturday = { schedule: '0 3 * * 6', duration: '4h', maxConcurrent: 1 }
  test.each<[string, object, string, object]>([
    ['before it', {}, '2026-11-21T02:59:59Z', { state: 'closed', opensAt: at('2026-11-21T03:00:00Z') }],
    ['when it opens', {}, '2026-11-21T03:00:00Z', { state: 'open', id: '2026-11-21T03:00:00.000Z' }],
    ['within it', {}, '2026-11-21T06:59:59Z', { state: 'open', endsAt: at('2026-11-21T07:00:00Z') }],
    ['when it closes', {}, '2026-11-21T07:00:00Z', { state: 'closed', opensAt: at('2026-11-28T03:00:00Z') }],
    ['in its own time zone', { timeZone: 'Europe/Berlin' }, '2026-11-21T02:00:00Z', { state: 'open' }],
    ['in its own time zone in summer', { timeZone: 'Europe/Berlin' }, '2026-07-11T01:00:00Z', { state: 'open' }],
    ['on the listed days and hours', { schedule: '0 3 * * sat,sun' }, '2026-11-22T03:30:00Z', { state: 'open' }],
    ['a nonexistent hour', { schedule: '0 25 * * *' }, '2026-11-22T03:30:00Z', { state: 'invalid' }],
    ['an unknown zone', { timeZone: 'Nowhere/Land' }, '2026-11-22T03:30:00Z', { state: 'invalid' }],
    ['a nonexistent day', { schedule: '0 0 31 2 *' }, '2026-11-22T03:30:00Z', { state: 'closed', opensAt: undefined }],
  ])('%s', (_, more, now, expected) => {
    expect(windowAt({ ...saturday, ...more }, at(now))).toMatchObject(expected)
  })

  test('has the same id while it is open', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 * 3600_000 - 1 }), offset => {
        const window = windowAt(saturday, at('2026-11-21T03:00:00Z') + offset)
        expect(window).toMatchObject({ state: 'open', id: '2026-11-21T03:00:00.000Z' })
      }),
    )
  })

  test('lasts as long as its duration', () => {
    expect([lengthOf('90m'), lengthOf('4h')]).toEqual([90 * 60_000, 4 * 3600_000])
  })
})

describe('which database is restarted next', () => {
  const id = 'now'
  const pending = (since = '2026-01-01T00:00:00Z') => [{ reason: 'Image', message: 'm', since }]
  const database = (name: string, status: ManagedDatabaseStatus = {}): ManagedDatabase => {
    const spec = managedDatabase.spec.parse(databaseDraft(name).spec)
    return {
      apiVersion,
      kind: 'ManagedDatabase',
      metadata: { name, namespace: 'n', uid: name },
      spec,
      status: { phase: 'available', pendingRestart: pending(), ...status },
    }
  }
  const base = database('x')
  // The request counts as applied: the hash is that of the plain draft.
  const reconciled = (name: string, status: ManagedDatabaseStatus = {}) =>
    database(name, { appliedHash: desiredHash(desiredStateOf(base)), ...status })
  const names = (list: readonly Candidate[]) => list.map(({ metadata }) => metadata.name)

  test('the databases that have waited longest, at most maxConcurrent', () => {
    const all = [reconciled('b'), reconciled('a'), reconciled('c', { pendingRestart: pending('2025-01-01T00:00:00Z') })]
    expect(names(admit(all, [], id, 2).next)).toEqual(['c', 'a'])
    const running = reconciled('d', { maintenance: { restart: id, startedAt: '2026-01-01T00:00:00Z' } })
    expect(names(admit([...all, running], [], id, 2).next)).toEqual(['c'])
    expect(names(admit([...all, running], [], id, 1).next)).toEqual([])
  })

  test('a database whose deletion is blocked counts against maxConcurrent and is not restarted', () => {
    const running = reconciled('d', { maintenance: { restart: id, startedAt: '2026-01-01T00:00:00Z' } })
    const [blocked, waiting] = [running, reconciled('e')].map(one => ({
      ...one,
      metadata: { ...one.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
    }))
    if (blocked === undefined || waiting === undefined) throw new Error('two')
    expect(admit([reconciled('a'), blocked, waiting], [], id, 1)).toMatchObject({ next: [], running: 1 })
    expect(names(admit([reconciled('a'), blocked, waiting], [], id, 9).next)).toEqual(['a'])
  })

  const branch = (name: string, status: Branch['status'] = {}, spec: Partial<Branch['spec']> = {}): Branch => ({
    apiVersion,
    kind: 'Branch',
    metadata: { name, namespace: 'n', uid: name },
    spec: branchDefinition.spec.parse({ ...branchDraft(name, { name: 'a', id: '0' }).spec, ...spec }),
    status: { phase: 'available', pendingRestart: pending(), ...status },
  })

  test('branches, too, except branches that do not serve or are being deleted', () => {
    const running = branch('r', { maintenance: { restart: id, startedAt: '2026-01-01T00:00:00Z' } })
    expect(names(admit([reconciled('b'), branch('a')], [], id, 2).next)).toEqual(['a', 'b'])
    expect(names(admit([reconciled('b'), branch('a'), running], [], id, 2).next)).toEqual(['a'])
    expect(admit([branch('a', { phase: 'failed' })], [], id, 9)).toMatchObject({ next: [], waiting: 0 })
    expect(
      admit(
        [branch('a', { maintenance: { ...running.status?.maintenance, restart: id, startedAt: '', endedAt: '' } })],
        [],
        id,
        9,
      ).next,
    ).toEqual([])
    const goes = branch('g', running.status, { deletionRequestedAt: '2026-01-01T00:00:00Z' })
    expect([running, branch('a'), goes].map(isOfInterest)).toEqual([true, true, false])
  })

  test('a restart requested by a user counts against maxConcurrent', () => {
    const operation = {
      taskId: 't',
      name: 'restart-managed' as const,
      hash: 'h',
      startedAt: '2026-01-01T00:00:00Z',
      deadlineAt: '2026-01-01T00:00:00Z',
    }
    expect(admit([reconciled('a'), reconciled('b', { operation })], [], id, 1).next).toEqual([])
  })

  test.each<[string, ManagedDatabaseStatus]>([
    ['nothing is pending', { pendingRestart: [] }],
    ['it is suspended', { phase: 'suspended' }],
    ['it does not serve', { phase: 'degraded' }],
    ['its spec changed', { appliedHash: 'other' }],
    [
      'it was restarted in this window',
      {
        maintenance: {
          restart: id,
          startedAt: '2026-01-01T00:00:00Z',
          endedAt: '2026-01-01T00:00:00Z',
          outcome: 'completed',
        },
      },
    ],
  ])('none where %s', (_, status) => {
    expect(admit([reconciled('a', status)], [], id, 9).next).toEqual([])
  })

  test('none while a database restarted in any window does not serve', () => {
    const failed = reconciled('f', {
      phase: 'degraded',
      maintenance: {
        restart: 'before',
        startedAt: '2026-01-01T00:00:00Z',
        endedAt: '2026-01-01T00:00:00Z',
        outcome: 'failed',
      },
    })
    expect(admit([reconciled('a'), failed], [], id, 9)).toMatchObject({ next: [], failed: [failed] })
  })
})

/** A window that opened a minute ago, for two hours, at any time of day. */
function openNow() {
  const since = new Date(Date.now() - 60_000)
  return { schedule: `${since.getUTCMinutes()} ${since.getUTCHours()} * * *`, duration: '2h' }
}

const count = 6
const namesOf = Array.from({ length: count }, (_, index) => `db${index}`)
const branchName = 'copy'
/** The restarts of each object, the branch included. */
const ofEach = <T>(value: T): T[] => Array.from({ length: count + 1 }, () => value)
const other = { configuration: { ...testConfiguration, images: { postgres: { 18: 'postgres:18.9' } } } }

/** A region with databases and a branch of one of them. An operator of another release created them. */
async function prepared(): Promise<Installation> {
  const installation = await openInstallation()
  const { cluster } = installation
  const operator = await startTestOperator(installation)
  for (const name of namesOf) await cluster.create('ManagedDatabase', databaseDraft(name))
  for (const name of namesOf)
    await eventually(
      () => cluster.get('ManagedDatabase', { namespace: testNamespace, name }),
      found => found?.status?.phase === 'available' && found.status.operation === undefined,
    )
  const source = await cluster.get('ManagedDatabase', { namespace: testNamespace, name: 'db0' })
  await giveSnapshots(cluster)
  const id = source?.metadata.labels?.[labels.id] ?? ''
  await cluster.create('Branch', branchDraft(branchName, { name: 'db0', id }))
  await eventually(
    () => cluster.get('Branch', { namespace: testNamespace, name: branchName }),
    found => found?.status?.phase === 'available' && found.status.operation === undefined,
  )
  await operator.stop()
  return installation
}

async function setWindow({ cluster }: Installation, maxConcurrent: number): Promise<void> {
  const region = await cluster.get('Region', { name: 'here' })
  if (region === undefined) throw new Error('there is no region')
  await cluster.replace('Region', { ...region, spec: { ...region.spec, maintenance: { ...openNow(), maxConcurrent } } })
}

/** Records how many databases and branches are unavailable at the same time, and how often each pod is created. */
async function startWatch({ store }: Installation) {
  const cluster = store.connect('watch')
  const databases = createInformer(cluster, 'ManagedDatabase', { logger: silent })
  const branches = createInformer(cluster, 'Branch', { logger: silent })
  const pods = createInformer(cluster, 'Pod', { logger: silent })
  const away = new Set<string>()
  const made = new Map<string, Set<string>>()
  let most = 0
  const note = ({ object }: { object: Candidate }) => {
    const { name } = object.metadata
    const { maintenance } = object.status ?? {}
    if (maintenance !== undefined && maintenance.endedAt === undefined) away.add(name)
    else away.delete(name)
    most = Math.max(most, away.size)
  }
  databases.onChange(note)
  branches.onChange(note)
  pods.onChange(({ object, type }) => {
    if (type === 'deleted') return
    const { name, uid = '' } = object.metadata
    made.set(name, (made.get(name) ?? new Set()).add(uid))
  })
  await Promise.all([databases.start(), branches.start(), pods.start()])
  return {
    most: () => most,
    restarts: () => [...made.values()].map(uids => uids.size - 1),
    stop: () => Promise.all([databases.stop(), branches.stop(), pods.stop()]),
  }
}

const all = async ({ cluster }: Installation): Promise<Candidate[]> => {
  const of = { namespace: testNamespace }
  return [...(await cluster.list('ManagedDatabase', of)).items, ...(await cluster.list('Branch', of)).items]
}
const isDone = (candidates: readonly Candidate[]) =>
  candidates.every(
    ({ status }) =>
      status?.phase === 'available' &&
      status.pendingRestart === undefined &&
      status.operation === undefined &&
      status.maintenance?.outcome === 'completed',
  )

describe('a release with another template', () => {
  test.each([1, 2])(
    'restarts nothing; the window restarts each database once, %i at the same time',
    async maxConcurrent => {
      const installation = await prepared()
      const watch = await startWatch(installation)
      const operator = await startTestOperator(installation, other)
      await eventually(
        () => all(installation),
        databases => databases.every(({ status }) => (status?.pendingRestart ?? []).length > 0),
      )
      expect(watch.restarts()).toEqual(ofEach(0))
      expect((await all(installation)).map(({ status }) => status?.phase)).toEqual(ofEach('available'))
      expect((await installation.cluster.list('Task', { namespace: testNamespace })).items).toHaveLength(count + 1)

      await setWindow(installation, maxConcurrent)
      await eventually(() => all(installation), isDone, { withinMs: 30_000 })
      expect(watch.restarts()).toEqual(ofEach(1))
      expect(watch.most()).toBe(maxConcurrent)
      const tasks = (await installation.cluster.list('Task', { namespace: testNamespace })).items
      expect(tasks.filter(({ spec }) => spec.name === 'restart-managed').map(({ status }) => status?.phase)).toEqual(
        namesOf.map(() => 'succeeded'),
      )
      await operator.stop()
      await watch.stop()
      await installation.close()
    },
  )

  test('restarts each database once if the operator is killed after any effect', async () => {
    for (const after of [1, 4, 10, 14, 20, 27, 35]) {
      const installation = await prepared()
      await setWindow(installation, 1)
      const watch = await startWatch(installation)
      const crashPoint = createCrashPoint(after)
      const { workload } = installation
      if (workload === undefined) throw new Error('there is no fake workload')
      const crashing = await startTestOperator(installation, {
        ...other,
        wrap: crashPoint.cluster,
        administrator: crashPoint.access(workload.postgres.access),
      })
      await eventually(
        () => crashPoint.hasCrashed,
        blown => blown,
        { withinMs: 30_000 },
      )
      await crashing.stop()
      const operator = await startTestOperator(installation, other)
      await eventually(() => all(installation), isDone, { withinMs: 30_000 })
      expect(watch.restarts(), `after effect ${after}: ${crashPoint.effects.at(-1)}`).toEqual(ofEach(1))
      expect(watch.most()).toBe(1)
      await operator.stop()
      await watch.stop()
      await installation.close()
    }
  }, 120_000)

  test('a database that does not start again stops further restarts until it serves', async () => {
    const installation = await prepared()
    const { cluster, workload } = installation
    await setWindow(installation, 1)
    // Long enough for a busy machine to stop the pod. A restart that did not start expires, and the next one can begin.
    const deadlines = { ...testConfiguration.deadlines, modifyingMs: 4_000 }
    workload?.refuse(true)
    const operator: Operator = await startTestOperator(installation, {
      configuration: { ...other.configuration, deadlines },
    })
    const region = () => cluster.get('Region', { name: 'here' })
    const stopped = await eventually(
      region,
      found => found?.status?.conditions?.some(({ reason }) => reason === 'RolloutStopped') === true,
      { withinMs: 20_000 },
    )
    expect(stopped?.status?.conditions?.[0]?.message).toMatch(/(db\d|copy)\. The operator restarts no other database/)
    const begun = (await all(installation)).filter(({ status }) => status?.maintenance !== undefined)
    expect(begun.map(({ status }) => status?.maintenance?.outcome)).toEqual(['failed'])
    workload?.refuse(false)
    await eventually(() => all(installation), isDone, { withinMs: 30_000 })
    expect((await region())?.status?.conditions?.map(({ type, status }) => [type, status])).toEqual([
      ['Maintenance', 'True'],
      ['SnapshotsReady', 'True'],
      ['CertificateReady', 'True'],
    ])
    await operator.stop()
    await installation.close()
  }, 60_000)
})

/** Opens in 40 days. */
function openLater() {
  const at = new Date(Date.now() + 40 * 24 * 3600_000)
  return { schedule: `0 0 ${at.getUTCDate()} ${at.getUTCMonth() + 1} *`, duration: '1h' }
}

test('a database restarts with its own valid slot, and continues a restart that an earlier operator started', async () => {
  const installation = await openInstallation()
  const { cluster } = installation
  const of = { namespace: testNamespace }
  const names = ['one', 'two']
  const first = await startTestOperator(installation)
  for (const name of names) await cluster.create('ManagedDatabase', databaseDraft(name))
  const databases = async () => (await cluster.list('ManagedDatabase', of)).items
  const untilReconciled = (isExpected: (one: ManagedDatabase) => boolean) =>
    eventually(databases, found => found.length === names.length && found.every(isExpected))
  await untilReconciled(({ status }) => status?.phase === 'available' && status.operation === undefined)
  await first.stop()
  const second = await startTestOperator(installation, other)
  const [one, two] = await untilReconciled(({ status }) => status?.pendingRestart !== undefined)
  if (one === undefined || two === undefined) throw new Error('a database is missing')
  const watch = await startWatch(installation)

  const region = async () => {
    const found = await cluster.get('Region', { name: 'here' })
    if (found === undefined) throw new Error('there is no region')
    return found
  }
  const setTurns = async (turns: Turn[]) => {
    const { status, ...rest } = await eventually(
      region,
      found => found.status?.conditions?.[0]?.reason === 'WindowClosed',
    )
    await cluster.replaceStatus('Region', { ...rest, status: { ...status, turns } })
    await eventually(region, found => found.status?.turns === undefined)
  }
  const window = 'the window'
  const turn = ({ metadata: { name, uid = '' } }: ManagedDatabase, more: Partial<Turn> = {}): Turn => ({
    ...{ kind: 'ManagedDatabase', ...of, name, uid, window, grantedAt: timestamp(Date.now()), ...more },
  })
  const here = await region()
  await cluster.replace('Region', {
    ...here,
    spec: { ...here.spec, maintenance: { ...openLater(), maxConcurrent: 2 } },
  })
  await setTurns([turn(one, { uid: 'of an earlier object' }), turn(two, { grantedAt: '2026-01-01T00:00:00Z' })])
  expect((await databases()).map(({ status }) => status?.maintenance)).toEqual([undefined, undefined])

  await setTurns([turn(one)])
  expect((await databases()).map(({ status }) => status?.maintenance?.outcome)).toEqual(['completed', undefined])
  const events = (await cluster.list('Event', of)).items.filter(({ reason }) => reason === 'MaintenanceRestart')
  expect(events.map(({ involvedObject }) => involvedObject.name)).toEqual(['one'])

  await second.stop()
  const maintenance = { restart: window, startedAt: timestamp(Date.now()) }
  const [, last] = await databases()
  if (last === undefined) throw new Error('a database is missing')
  await cluster.replaceStatus('ManagedDatabase', { ...last, status: { ...last.status, maintenance } })
  const third = await startTestOperator(installation, other)
  await untilReconciled(
    ({ status }) => status?.maintenance?.outcome === 'completed' && status.pendingRestart === undefined,
  )
  expect(watch.restarts()).toEqual([1, 1])
  await third.stop()
  await watch.stop()
  await installation.close()
})

test('a region reports whether snapshots work, and which requested fields this version does not implement', async () => {
  const installation = await openInstallation()
  const operator = await startTestOperator(installation)
  const { cluster } = installation
  const editRegion = async (change: object) => {
    const region = await cluster.get('Region', { name: 'here' })
    if (region === undefined) throw new Error('there is no region')
    const { domain, gateway } = region.spec
    await cluster.replace('Region', { ...region, spec: { domain, gateway, ...change } })
  }
  const conditionsOf = (types: string[]) =>
    eventually(
      async () => (await cluster.get('Region', { name: 'here' }))?.status?.conditions ?? [],
      conditions => types.join() === conditions.map(({ type }) => type).join(),
    )
  const snapshotClass = { name: 'fast', atomic: true }
  await editRegion({ snapshotClass, objectStore: { endpoint: 'https://objects.test', bucket: 'backups' } })
  const [ofSnapshots, , ofBackups] = await conditionsOf(['SnapshotsReady', 'CertificateReady', 'BackupsReady'])
  expect(ofSnapshots).toMatchObject({ status: 'True', reason: 'Available' })
  expect(ofBackups).toMatchObject({
    status: 'False',
    reason: 'NotAvailable',
    message: expect.stringMatching(/^spec\.objectStore is not used/),
  })
  await editRegion({ snapshotClass, maintenance: { ...openNow(), maxConcurrent: 1 } })
  await conditionsOf(['Maintenance', 'SnapshotsReady', 'CertificateReady'])
  await editRegion({ snapshotClass: { name: 'slow', atomic: false } })
  const [torn] = await conditionsOf(['SnapshotsReady', 'CertificateReady'])
  expect(torn).toMatchObject({ status: 'False', reason: 'NotAtomic', message: expect.stringContaining('slow') })
  await editRegion({})
  await conditionsOf(['CertificateReady'])
  await operator.stop()
  await installation.close()
})

test('a region grants no slot while the clock is not trusted', async () => {
  const installation = await openInstallation()
  let setMs = 0
  const machine = () => ({ wall: setMs, elapsed: 0, boot: 'test' })
  const earlier = await startTestOperator(installation)
  await installation.cluster.create('ManagedDatabase', databaseDraft('one'))
  const find = () => installation.cluster.get('ManagedDatabase', { namespace: testNamespace, name: 'one' })
  await eventually(find, found => found?.status?.phase === 'available' && found.status.operation === undefined)
  await earlier.stop()
  const operator = await startTestOperator(installation, { ...other, machine })
  await eventually(find, found => found?.status?.pendingRestart !== undefined)
  setMs = 30 * 60_000
  await setWindow(installation, 1)
  const region = await eventually(
    () => installation.cluster.get('Region', { name: 'here' }),
    found => found?.status?.conditions?.[0]?.reason === 'ClockDoubtful',
  )
  expect(region?.status?.turns).toBeUndefined()
  await operator.stop()
  await installation.close()
})

test('an invalid window is reported and restarts nothing', async () => {
  const installation = await openInstallation()
  const operator = await startTestOperator(installation)
  const region = await installation.cluster.get('Region', { name: 'here' })
  if (region === undefined) throw new Error('there is no region')
  const maintenance = { schedule: '0 25 * * *', duration: '1h', maxConcurrent: 1 }
  await installation.cluster.replace('Region', { ...region, spec: { ...region.spec, maintenance } })
  const conditionsOf = await eventually(
    () => installation.cluster.get('Region', { name: 'here' }),
    found => found?.status?.conditions?.some(({ type }) => type === 'Maintenance') === true,
  )
  expect(conditionsOf?.status?.conditions?.find(({ type }) => type === 'Maintenance')).toMatchObject({
    status: 'False',
    reason: 'ScheduleInvalid',
  })
  await operator.stop()
  await installation.close()
})
