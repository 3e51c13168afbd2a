/** Scheduled backups: taken on time, taken once if several were missed, and deleted by retention. */
import { afterEach, expect, test } from 'vitest'
import { type Cluster, ClusterError } from '../../../cluster/index.ts'
import { type Backup, labels, type ManagedDatabase } from '../../../crds/index.ts'
import type { Operator, OperatorConfiguration } from '../../index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type CrashPoint, createCrashPoint } from '../../testing/crash-point.ts'
import {
  backupDraft,
  databaseDraft,
  databaseWhen,
  editSpec,
  eventually,
  giveSnapshots,
  type Installation,
  openInstallation,
  startTestOperator,
  testConfiguration,
  testNamespace,
  withArchive,
} from '../../testing/installation.ts'
import { createLaggingWatch } from '../../testing/lagging-watch.ts'
import { rememberLists } from '../../testing/older-lists.ts'
import { scheduleOf } from './due.ts'
import { durableName } from './recorded.ts'

const dayMs = 24 * 3600_000
const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const part of opened.splice(0)) await part.close()
})

/** An hour after the next nightly backup. The operator missed as many as it was down for. */
const nextNight = (nights = 1): number => {
  const schedule = scheduleOf({}, id, 0, Date.now())
  return (schedule.state === 'on' ? (schedule.next ?? 0) : 0) + (nights - 1) * dayMs + 3600_000
}

/** Timeouts use the clock of the cluster, which is behind. */
const backups = {
  ...testConfiguration.backups,
  schedules: true,
  spreadMs: 0,
  ...{ cutMs: 365 * dayMs, readyMs: 365 * dayMs, errorMs: 365 * dayMs, servingMs: 365 * dayMs },
}

async function open(spec: Partial<ManagedDatabase['spec']> = {}, more: Partial<OperatorConfiguration> = {}) {
  const installation: Installation = await openInstallation()
  const { cluster } = installation
  let operator: Operator | undefined
  const stop = async () => {
    await operator?.stop()
    operator = undefined
  }
  opened.push({
    close: async () => {
      await stop()
      await installation.close()
    },
  })
  await giveSnapshots(cluster)
  await cluster.create('ManagedDatabase', databaseDraft('one', spec, id))
  const start = async (
    nowMs?: number,
    disturbed?: Pick<CrashPoint, 'cluster'> & Partial<Pick<CrashPoint, 'access'>>,
  ) => {
    await stop()
    const offset = nowMs === undefined ? 0 : nowMs - Date.now()
    operator = await startTestOperator(installation, {
      configuration: { backups, ...more },
      now: () => Date.now() + offset,
      ...(disturbed === undefined ? {} : { wrap: disturbed.cluster }),
      ...(disturbed?.access && installation.workload
        ? { administrator: disturbed.access(installation.workload.postgres.access) }
        : {}),
    })
  }
  await start()
  await databaseWhen(
    cluster,
    'one',
    found => found?.status?.phase === 'available' && found.status.operation === undefined,
  )
  const list = async () => (await cluster.list('Backup', { namespace: testNamespace })).items
  const untilReconciled = (count: number) =>
    eventually(list, items => items.length === count && items.every(({ status }) => status?.finishedAt !== undefined))
  const recorded = () => databaseWhen(cluster, 'one', found => found?.status?.scheduledBackupAt !== undefined)
  return { installation, cluster, start, stop, list, untilReconciled, recorded }
}

test('a new database has no backup due from the night before; the next night takes one, without a Task', async () => {
  const { cluster, start, untilReconciled, list } = await open()
  expect(await list()).toEqual([])
  await start(nextNight())
  const [backup] = await untilReconciled(1)
  expect(backup).toMatchObject({
    metadata: {
      name: expect.stringMatching(/^one-scheduled-[0-9]{8}-020000$/),
      labels: { [labels.id]: expect.any(String) },
    },
    spec: { databaseName: 'one', databaseId: id, kind: 'hot', purpose: 'scheduled' },
    status: { phase: 'completed' },
  })
  const tasks = (await cluster.list('Task', { namespace: testNamespace })).items
  expect(tasks.map(({ spec }) => spec.name)).toEqual(['create-managed'])
})

test('several missed backups are replaced by one, which is not taken again if a user deletes it', async () => {
  const { cluster, start, untilReconciled, list, recorded } = await open()
  await start(nextNight(4))
  const [backup] = await untilReconciled(1)
  await recorded()
  const { name = '' } = backup?.metadata ?? {}
  await cluster.delete('Backup', { namespace: testNamespace, name })
  await eventually(list, items => items.length === 0)
  await start(nextNight(4) + 60_000)
  await editSpec(cluster, 'one', spec => ({ ...spec, displayName: 'looked at' }))
  await databaseWhen(cluster, 'one', found => found?.status?.observedGeneration === found?.metadata.generation)
  expect(await list()).toEqual([])
  await start(nextNight(5))
  await untilReconciled(1)
})

test('a backup that is deleted before its database records it is kept until then, and not created again', async () => {
  const { cluster, start, untilReconciled, list, recorded } = await open()
  const at = nextNight()
  const refusing = (inner: Cluster): Cluster => ({
    ...inner,
    replaceStatus: async (kind, object) => {
      if (kind === 'ManagedDatabase') throw new ClusterError('Unavailable', 'the status is not written')
      return inner.replaceStatus(kind, object)
    },
  })
  await start(at, { cluster: refusing })
  const [backup] = await untilReconciled(1)
  const { name = '', uid } = backup?.metadata ?? {}
  await cluster.delete('Backup', { namespace: testNamespace, name })
  const isDelayed = (items: Backup[]) => conditionOf(items[0]?.status, 'Progressing')?.reason === 'AwaitingRecord'
  expect((await eventually(list, isDelayed))[0]?.metadata).toMatchObject({ uid, deletionTimestamp: expect.any(String) })
  // Another operator continues.
  await start(at)
  await recorded()
  await eventually(list, items => items.length === 0)
  await editSpec(cluster, 'one', spec => ({ ...spec, displayName: 'looked at' }))
  await databaseWhen(cluster, 'one', found => found?.status?.observedGeneration === found?.metadata.generation)
  expect(await list()).toEqual([])
})

test('a leader whose caches are older than a recorded and deleted backup does not create it again', async () => {
  const { cluster, start, untilReconciled, list, recorded } = await open()
  const older = await rememberLists(cluster)
  const at = nextNight()
  await start(at)
  const [backup] = await untilReconciled(1)
  await recorded()
  await cluster.delete('Backup', { namespace: testNamespace, name: backup?.metadata.name ?? '' })
  await eventually(list, items => items.length === 0)
  const lagging = createLaggingWatch()
  lagging.lag(kind => kind === 'ManagedDatabase' || kind === 'Backup')
  let isRead = false
  const reading = (inner: Cluster): Cluster => ({
    ...inner,
    get: async (kind, key) => {
      const found = await inner.get(kind, key)
      if (kind === 'ManagedDatabase') isRead = true
      return found
    },
  })
  await start(at, { cluster: inner => reading(lagging.cluster(older(inner))) })
  await eventually(() => isRead)
  lagging.catchUp('events')
  await editSpec(cluster, 'one', spec => ({ ...spec, displayName: 'looked at' }))
  await databaseWhen(cluster, 'one', found => found?.status?.observedGeneration === found?.metadata.generation)
  expect(await list()).toEqual([])
})

test('a crash after any effect creates no second backup', async () => {
  for (let after = 1; ; after++) {
    const { start, untilReconciled, recorded, cluster } = await open()
    const crashPoint = createCrashPoint(after)
    const at = nextNight()
    await start(at, crashPoint)
    const isDone = async () => {
      const { items } = await cluster.list('Backup')
      const database = await cluster.get('ManagedDatabase', { namespace: testNamespace, name: 'one' })
      return items[0]?.status?.finishedAt !== undefined && database?.status?.scheduledBackupAt !== undefined
    }
    await eventually(
      async () => crashPoint.hasCrashed || (await isDone()),
      over => over,
    )
    const wasBlown = crashPoint.hasCrashed
    if (wasBlown) await start(at)
    await recorded()
    const [backup] = await untilReconciled(1)
    expect(backup?.status?.phase, crashPoint.effects.at(-1)).toBe('completed')
    if (!wasBlown) return expect(after).toBeGreaterThan(4)
  }
})

test('a crash after any effect leaves out none of the backups of a night', async () => {
  for (let after = 1; ; after++) {
    const { start, list } = await open({ backup: { durable: true } }, withArchive)
    const crashPoint = createCrashPoint(after)
    const at = nextNight()
    await start(at, crashPoint)
    const kinds = async () =>
      (await list())
        .filter(({ metadata }) => !metadata.name.startsWith('one-base-')) // it starts the recovery window
        .map(({ metadata, spec }) => `${spec.kind} ${metadata.name.slice(0, -16)}`)
        .sort()
    await eventually(
      async () => crashPoint.hasCrashed || (await kinds()).length === 2,
      over => over,
    )
    if (crashPoint.hasCrashed) await start(at)
    await eventually(kinds, found => found.length === 2)
    expect(await kinds(), crashPoint.effects.at(-1)).toEqual(['durable one-durable', 'hot one-scheduled'])
    if (crashPoint.effects.some(effect => effect.startsWith('create Backup one-scheduled-')))
      return expect(after).toBeGreaterThan(2)
  }
})

test('the durable backup of a night is taken once, although hot ones have become impossible after it', async () => {
  const { cluster, start, stop, list } = await open({ backup: { durable: true } }, withArchive)
  await stop()
  const night = nextNight() - 3600_000
  const draft = backupDraft(durableName('one', night), { name: 'one', id }, { purpose: 'scheduled', kind: 'durable' })
  await cluster.create('Backup', draft)
  await giveSnapshots(cluster, false)
  await start(nextNight())
  await editSpec(cluster, 'one', spec => ({ ...spec, displayName: 'looked at' }))
  await databaseWhen(cluster, 'one', found => found?.status?.observedGeneration === found?.metadata.generation)
  const names = (await list()).map(({ metadata }) => metadata.name).filter(name => !name.startsWith('one-base-'))
  expect(names).toEqual([durableName('one', night)])
})

test('no backup is taken with schedules off or of a suspended database; a missed one is taken later', async () => {
  const { cluster, start, untilReconciled, list } = await open({ backup: { durable: false, schedule: 'off' } })
  const seen = () =>
    databaseWhen(cluster, 'one', found => found?.status?.observedGeneration === found?.metadata.generation)
  await start(nextNight())
  await editSpec(cluster, 'one', spec => ({ ...spec, displayName: 'looked at' }))
  await seen()
  expect(await list()).toEqual([])
  // Gateways are trusted by their own clock.
  await start()
  await editSpec(cluster, 'one', spec => ({ ...spec, suspended: true, backup: { durable: false } }))
  await databaseWhen(cluster, 'one', found => found?.status?.phase === 'suspended')
  await start(nextNight())
  await editSpec(cluster, 'one', spec => ({ ...spec, displayName: 'looked at again' }))
  await seen()
  expect(await list()).toEqual([])
  await start()
  await editSpec(cluster, 'one', spec => ({ ...spec, suspended: false }))
  await databaseWhen(cluster, 'one', found => found?.status?.phase === 'available')
  await start(nextNight())
  await untilReconciled(1)
})

test('backups beyond retention are deleted with their snapshots; the last good one is kept', async () => {
  const { cluster, start, untilReconciled, list, installation } = await open({
    backup: { durable: false, schedule: 'off' },
  })
  for (const number of [1, 2, 3]) {
    await cluster.create('Backup', backupDraft(`one-${number}`, { name: 'one', id }, { purpose: 'scheduled' }))
    await untilReconciled(number)
  }
  await start(Date.now() + 8 * dayMs)
  await eventually(list, items => items.length === 1)
  expect((await list()).map(({ metadata }) => metadata.name)).toEqual(['one-3'])
  await eventually(
    () => installation.workload?.snapshots.images.size,
    size => size === 1,
  )
})

test('the newest verified backup is kept if later ones fail verification, and the database reports that', async () => {
  const { cluster, start, stop, untilReconciled, list } = await open({ backup: { durable: false, schedule: 'off' } })
  for (const [number, verification] of [
    [1, 'verified'],
    [2, 'failed'],
    [3, 'failed'],
  ] as const) {
    const draft = backupDraft(`one-${number}`, { name: 'one', id }, { purpose: 'scheduled' })
    await cluster.create('Backup', draft)
    const found = (await untilReconciled(number)).find(({ metadata }) => metadata.name === draft.metadata.name)
    if (found === undefined) throw new Error('there is no backup')
    await cluster.replaceStatus('Backup', { ...found, status: { ...found.status, verification } })
  }
  await start(Date.now() + 8 * dayMs)
  await eventually(list, items => items.length === 2)
  expect((await list()).map(({ metadata }) => metadata.name).toSorted()).toEqual(['one-1', 'one-3'])
  await databaseWhen(cluster, 'one', found => conditionOf(found?.status, 'RetentionHeld')?.reason === 'NewestVerified')
  const events = async () => (await cluster.list('Event', { namespace: testNamespace })).items
  await eventually(events, items => items.some(({ reason }) => reason === 'NewestVerified'))
  await stop()
})

test('a backup that a new database reads from is kept until the database is created', async () => {
  const { cluster, start, untilReconciled, list, installation } = await open({
    backup: { durable: false, schedule: 'off' },
  })
  const { workload } = installation
  for (const number of [1, 2, 3]) {
    await cluster.create('Backup', backupDraft(`one-${number}`, { name: 'one', id }, { purpose: 'scheduled' }))
    await untilReconciled(number)
  }
  const deletionRequested = new Set<string>()
  const names = async () => {
    const items = await list()
    for (const { metadata } of items) if (metadata.deletionTimestamp !== undefined) deletionRequested.add(metadata.name)
    return items.map(({ metadata }) => metadata.name).sort()
  }
  if (workload) workload.volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await cluster.create('ManagedDatabase', databaseDraft('two', { dataSource: { backupName: 'one-1' } }))
  await databaseWhen(cluster, 'two', found => found?.status?.operation !== undefined)
  await start(Date.now() + 8 * dayMs)
  await eventually(names, remaining => remaining.length === 2)
  expect(await names()).toEqual(['one-1', 'one-3'])
  expect(deletionRequested).not.toContain('one-1')
})

test('the database reports a schedule that takes no backups, and a scheduled backup that failed', async () => {
  const { cluster, untilReconciled, installation } = await open()
  const reason = (expected: string | undefined) =>
    databaseWhen(cluster, 'one', found => conditionOf(found?.status, 'BackupsReady')?.reason === expected)
  const editBackup = (backup: Partial<ManagedDatabase['spec']['backup']>) =>
    editSpec(cluster, 'one', spec => ({ ...spec, backup: { durable: false, ...backup } }))
  await editBackup({ schedule: 'daily' })
  await reason('ScheduleInvalid')
  await editBackup({ schedule: '0 3 * * *' })
  await reason(undefined)
  await giveSnapshots(cluster, false)
  const reported = await reason('NotAtomic')
  expect(reported?.status?.phase).toBe('available')
  await giveSnapshots(cluster)
  await reason(undefined)
  const { workload } = installation
  for (const data of workload?.postgres.data.values() ?? []) {
    data.checkpoint = Promise.reject(new Error('no'))
    data.checkpoint.catch(() => {})
  }
  await cluster.create('Backup', backupDraft('one-1', { name: 'one', id }, { purpose: 'scheduled' }))
  await untilReconciled(1)
  const failed = await reason('LastBackupFailed')
  expect(conditionOf(failed?.status, 'BackupsReady')?.message).toMatch(/one-1, failed: .*no$/)
})

test('with the durable tier a durable backup is created beside each hot one, and alone where there are no snapshots', async () => {
  const { cluster, start, list } = await open({ backup: { durable: true } }, withArchive)
  await start(nextNight())
  const kinds = async () =>
    (await list()).map(({ metadata, spec }) => `${spec.kind} ${metadata.name.slice(0, -16)}`).sort()
  await eventually(kinds, found => found.length === 2)
  expect(await kinds()).toEqual(['durable one-durable', 'hot one-scheduled'])
  await giveSnapshots(cluster, false)
  await start(nextNight(2))
  await eventually(kinds, found => found.length === 3)
  expect(await kinds()).toContain('durable one-scheduled')
})
