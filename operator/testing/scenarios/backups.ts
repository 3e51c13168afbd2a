/** Backups, and databases that are restored, created or deleted with them. */
import type { Cluster } from '../../../cluster/index.ts'
import {
  annotations,
  childNames,
  deletedDatabaseKey,
  deletedDatabaseManifest,
  desiredHash,
  desiredStateOf,
  renderOperation,
  renderRequestedRestore,
} from '../../../crds/index.ts'
import { databaseDraft, editSpec, eventually, testConfiguration, testNamespace, withArchive } from '../installation.ts'
import { backupEndedAs, backupKey, requestBackup } from './backup-requests.ts'
import { createTask, key, narrow, reconciledAs, volumesOf } from './requests.ts'
import type { Scenario, Subject } from './scenario.ts'

const restoreName = 'swept-back'
const anotherId = '3c1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'

const isDeleted: Scenario['isDone'] = async (cluster, subject) => {
  const { items } = await cluster.list('Task', { namespace: testNamespace })
  return (
    (await cluster.get('ManagedDatabase', key(subject))) === undefined &&
    items.every(task => task.status?.finishedAt !== undefined)
  )
}

const deleteWithBackup = (what: string, keepBackups: boolean): Scenario => ({
  name: `delete ${what}`,
  takesAway: true,
  ...(keepBackups ? { images: 1 } : {}),
  before: { ipAllowlist: narrow, deletion: { keepBackups } },
  rules: ['198.51.100.0/24'],
  hasSnapshots: true,
  earlier: { act: requestBackup, isDone: backupEndedAs('completed') },
  act: (cluster, subject) => cluster.delete('ManagedDatabase', key(subject)),
  isDone: isDeleted,
})

async function requestRestore(
  cluster: Cluster,
  subject: Subject,
  more: { discardPrevious?: true } = {},
): Promise<void> {
  const database = await cluster.get('ManagedDatabase', key(subject))
  if (database === undefined) throw new Error('there is no database to restore')
  const restore = renderRequestedRestore({ name: restoreName, backupName: backupKey(subject).name, ...more })
  const hash = desiredHash({ ...desiredStateOf(database), restore })
  await editSpec(cluster, subject.name, spec => spec, {
    [annotations.restore]: restore,
    [annotations.operation]: renderOperation({ taskId: subject.taskId, name: 'restore-managed', hash }),
  })
  await createTask(cluster, subject, 'restore-managed')
}

/** The restore has ended, and one member runs. */
async function isRestoreOver(cluster: Cluster): Promise<boolean> {
  const restore = await cluster.get('Restore', { namespace: testNamespace, name: restoreName })
  const { items: sets } = await cluster.list('StatefulSet')
  const { items: pods } = await cluster.list('Pod')
  return restore?.status?.phase === 'completed' && sets.length === 1 && pods.length === 1
}

/** The backup to restore, and the backups of the data before and after the restore. */
async function areTaken(cluster: Cluster): Promise<boolean> {
  const { items } = await cluster.list('Backup')
  return items.length === 3 && items.every(({ status }) => status?.phase === 'completed')
}

const restoreScenario = (name: string, isDiscarding: boolean): Scenario => ({
  name,
  before: { ipAllowlist: narrow },
  rules: ['198.51.100.0/24'],
  hasSnapshots: true,
  isRestored: true,
  ...(isDiscarding ? { isLong: true as const, discards: true as const } : {}),
  images: 3,
  earlier: { act: requestBackup, isDone: backupEndedAs('completed') },
  act: (cluster, subject) => requestRestore(cluster, subject, isDiscarding ? { discardPrevious: true } : {}),
  isDone: async (cluster, subject) => {
    const database = await cluster.get('ManagedDatabase', key(subject))
    const isRetained = database?.status?.previous?.[0]?.reason === 'KeptForADay'
    const isOnRecord = isDiscarding ? (await volumesOf(cluster)).length === 1 : isRetained
    return (
      (await isRestoreOver(cluster)) &&
      (await areTaken(cluster)) &&
      isOnRecord &&
      reconciledAs('available')(cluster, subject)
    )
  },
})

const durable = {
  before: { ipAllowlist: narrow, backup: { durable: true, verify: 'none' } },
  rules: ['198.51.100.0/24'],
  configuration: withArchive,
} satisfies Partial<Scenario>
const requestDurable: Scenario['act'] = (cluster, subject) => requestBackup(cluster, subject, 'durable')
const durableTaken = { act: requestDurable, isDone: backupEndedAs('completed') }

const durableScenarios: Scenario[] = [
  { name: 'durable backup', ...durable, ...durableTaken },
  {
    name: 'restore out of the archive',
    ...durable,
    hasSnapshots: true,
    isRestored: true,
    images: 2,
    earlier: durableTaken,
    act: requestRestore,
    // At the end of the recovery, the objects that read the archive for the new volume are deleted.
    isDone: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', key(subject))
      const isRetained = database?.status?.previous?.[0]?.reason === 'KeptForADay' && (await areTaken(cluster))
      const { items: secrets } = await cluster.list('Secret', { namespace: testNamespace })
      const reader = childNames.archiveSource(subject.id, 2)
      const isClosed = secrets.every(({ metadata }) => metadata.name !== reader)
      const archives = database?.status?.archive?.incarnation === 2
      const isReconciled = await reconciledAs('available')(cluster, subject)
      return (await isRestoreOver(cluster)) && isRetained && isClosed && archives && isReconciled
    },
  },
  {
    name: 'delete of a durable backup',
    ...durable,
    earlier: durableTaken,
    act: (cluster, subject) => cluster.delete('Backup', backupKey(subject)),
    isDone: async (cluster, subject) => (await cluster.get('Backup', backupKey(subject))) === undefined,
  },
  {
    name: 'delete of a database that can come back',
    ...durable,
    isLong: true,
    takesAway: true,
    earlier: durableTaken,
    act: (cluster, subject) => cluster.delete('ManagedDatabase', key(subject)),
    isDone: isDeleted,
  },
  {
    name: 'delete for good with the durable tier',
    ...durable,
    before: { ...durable.before, deletion: { keepBackups: false, purge: true } },
    takesAway: true,
    earlier: durableTaken,
    act: (cluster, subject) => cluster.delete('ManagedDatabase', key(subject)),
    isDone: async (cluster, subject) =>
      (await isDeleted(cluster, subject)) &&
      (await cluster.get('ConfigMap', deletedDatabaseKey(subject.id))) === undefined,
  },
  {
    name: 'return of a deleted database',
    ...durable,
    isRestored: true,
    discards: true,
    earlier: {
      act: async (cluster, subject) => {
        await requestDurable(cluster, subject)
        await eventually(() => backupEndedAs('completed')(cluster, subject))
        await cluster.delete('ManagedDatabase', key(subject))
      },
      isDone: isDeleted,
    },
    act: async (cluster, subject) => {
      const record = await cluster.get('ConfigMap', deletedDatabaseKey(subject.id))
      await cluster.create('ManagedDatabase', JSON.parse(record?.data?.[deletedDatabaseManifest] ?? ''))
    },
    isDone: async (cluster, subject) => {
      const { status } = (await cluster.get('ManagedDatabase', key(subject))) ?? {}
      const isBack =
        status?.phase === 'available' && status.operation === undefined && status.archive?.incarnation === 2
      return isBack && (await cluster.get('ConfigMap', deletedDatabaseKey(subject.id))) === undefined
    },
  },
]

export const backupScenarios: Scenario[] = [
  ...durableScenarios,
  {
    name: 'backup',
    images: 1,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    act: requestBackup,
    isDone: backupEndedAs('completed'),
  },
  {
    name: 'backup that the storage cannot make',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    hasSnapshots: true,
    snapshots: { making: { mode: 'failing', message: 'the pool is full' } },
    configuration: { backups: { ...testConfiguration.backups, errorMs: 0 } },
    act: requestBackup,
    isDone: async (cluster, subject) =>
      (await backupEndedAs('failed')(cluster, subject)) && (await cluster.list('VolumeSnapshot')).items.length === 0,
  },
  {
    name: 'delete of a backup',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    earlier: { act: requestBackup, isDone: backupEndedAs('completed') },
    act: (cluster, subject) => cluster.delete('Backup', backupKey(subject)),
    isDone: async (cluster, subject) => (await cluster.get('Backup', backupKey(subject))) === undefined,
  },
  restoreScenario('restore', false),
  restoreScenario('restore that discards the volume it replaces', true),
  {
    name: 'create of a backup that is deleted meanwhile',
    before: { ipAllowlist: narrow, deletion: { keepBackups: true } },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    isRestored: true,
    earlier: { act: requestBackup, isDone: backupEndedAs('completed') },
    act: async (cluster, subject) => {
      const { name: backupName } = backupKey(subject)
      await cluster.create('ManagedDatabase', {
        ...databaseDraft('another', { dataSource: { backupName }, ipAllowlist: narrow }, anotherId),
      })
      await cluster.delete('Backup', backupKey(subject))
    },
    isDone: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', { namespace: testNamespace, name: 'another' })
      const isMade = database?.status?.phase === 'available' && database.status.operation === undefined
      return isMade && (await cluster.get('Backup', backupKey(subject))) === undefined
    },
  },
  deleteWithBackup('with its backup', false),
  deleteWithBackup('and keep its backup', true),
]
