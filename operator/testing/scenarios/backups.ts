/** Backups, and databases that are restored, created or deleted with them. */
import { annotations, askedBy, desiredHash, renderAskedRestore, renderOperation } from '../../../crds/index.ts'
import { databaseDraft, editSpec, testConfiguration, testNamespace } from '../installation.ts'
import { askBackup, backupEndedAs, backupKey } from './backup-requests.ts'
import { createTask, key, narrow, settledAs, volumesOf } from './requests.ts'
import type { Scenario } from './scenario.ts'

const restoreName = 'swept-back'
const anotherId = '3c1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'

const deleteWithBackup = (what: string, keepBackups: boolean): Scenario => ({
  name: `delete ${what}`,
  takesAway: true,
  ...(keepBackups ? { images: 1 } : {}),
  before: { ipAllowlist: narrow, deletion: { keepBackups } },
  rules: ['198.51.100.0/24'],
  hasSnapshots: true,
  earlier: { act: askBackup, isDone: backupEndedAs('completed') },
  act: (cluster, subject) => cluster.delete('ManagedDatabase', key(subject)),
  isDone: async (cluster, subject) => {
    const { items } = await cluster.list('Task', { namespace: testNamespace })
    return (
      (await cluster.get('ManagedDatabase', key(subject))) === undefined &&
      items.every(task => task.status?.finishedAt !== undefined)
    )
  },
})

const restoreScenario = (name: string, isDiscarding: boolean): Scenario => ({
  name,
  before: { ipAllowlist: narrow },
  rules: ['198.51.100.0/24'],
  hasSnapshots: true,
  isRestored: true,
  ...(isDiscarding ? { isLong: true as const, discards: true as const } : {}),
  images: 3,
  earlier: { act: askBackup, isDone: backupEndedAs('completed') },
  act: async (cluster, subject) => {
    const database = await cluster.get('ManagedDatabase', key(subject))
    if (database === undefined) throw new Error('there is no database to restore')
    const restore = renderAskedRestore({
      name: restoreName,
      backupName: backupKey(subject).name,
      ...(isDiscarding ? { discardPrevious: true } : {}),
    })
    const hash = desiredHash({ ...askedBy(database), restore })
    await editSpec(cluster, subject.name, spec => spec, {
      [annotations.restore]: restore,
      [annotations.operation]: renderOperation({ taskId: subject.taskId, name: 'restore-managed', hash }),
    })
    await createTask(cluster, subject, 'restore-managed')
  },
  isDone: async (cluster, subject) => {
    const restore = await cluster.get('Restore', { namespace: testNamespace, name: restoreName })
    const { items: backups } = await cluster.list('Backup')
    const { items: sets } = await cluster.list('StatefulSet')
    const { items: pods } = await cluster.list('Pod')
    const isOver = restore?.status?.phase === 'completed' && sets.length === 1 && pods.length === 1
    const areTaken = backups.length === 3 && backups.every(({ status }) => status?.phase === 'completed')
    const database = await cluster.get('ManagedDatabase', key(subject))
    const isKept = database?.status?.previous?.[0]?.reason === 'KeptForADay'
    const isOnRecord = isDiscarding ? (await volumesOf(cluster)).length === 1 : isKept
    return isOver && areTaken && isOnRecord && settledAs('available')(cluster, subject)
  },
})

export const backupScenarios: Scenario[] = [
  {
    name: 'backup',
    images: 1,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    act: askBackup,
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
    act: askBackup,
    isDone: async (cluster, subject) =>
      (await backupEndedAs('failed')(cluster, subject)) && (await cluster.list('VolumeSnapshot')).items.length === 0,
  },
  {
    name: 'delete of a backup',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    earlier: { act: askBackup, isDone: backupEndedAs('completed') },
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
    earlier: { act: askBackup, isDone: backupEndedAs('completed') },
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
