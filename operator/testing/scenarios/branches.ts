/** Branches, and databases that are deleted with them. */
import type { Cluster } from '../../../cluster/index.ts'
import { annotations } from '../../../crds/index.ts'
import { unreachedPoint } from '../fake-workload.ts'
import { editSpec, eventually, testConfiguration, testNamespace, withArchive } from '../installation.ts'
import { backupEndedAs, backupKey, requestBackup } from './backup-requests.ts'
import {
  branchEndedAs,
  deleteBranch,
  hasNotMoved,
  isMovedBranch,
  isRecoveredBranch,
  moveBranch,
  requestBranch,
} from './branch-requests.ts'
import { allTasksEnded, key, narrow } from './requests.ts'
import type { Scenario, Subject } from './scenario.ts'

/** A branch at the end of a durable backup. */
const branchAtBackup: Scenario['earlier'] = {
  act: async (cluster, subject) => {
    await requestBackup(cluster, subject, 'durable')
    await eventually(() => backupEndedAs('completed')(cluster, subject))
    await requestBranch(cluster, subject, [], { backupName: backupKey(subject).name })
  },
  isDone: isRecoveredBranch,
}

/** Moves to the same data, by another target. */
async function moveToEnd(cluster: Cluster, subject: Subject): Promise<void> {
  const backup = await cluster.get('Backup', { namespace: testNamespace, name: backupKey(subject).name })
  const lsn = backup?.status?.endLsn
  if (lsn === undefined) throw new Error('the backup has no end')
  await moveBranch(cluster, subject, { lsn })
}

export const branchScenarios: Scenario[] = [
  {
    name: 'branch',
    copies: 1,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    act: (cluster, subject) => requestBranch(cluster, subject),
    isDone: branchEndedAs('available'),
  },
  {
    name: 'branch out of the archive',
    copies: 1,
    before: { ipAllowlist: narrow, backup: { durable: true, verify: 'none' } },
    rules: ['198.51.100.0/24'],
    configuration: withArchive,
    earlier: {
      act: (cluster, subject) => requestBackup(cluster, subject, 'durable'),
      isDone: backupEndedAs('completed'),
    },
    act: (cluster, subject) => requestBranch(cluster, subject, [], { backupName: backupKey(subject).name }),
    isDone: isRecoveredBranch,
  },
  {
    name: 'move of a branch',
    copies: 1,
    before: { ipAllowlist: narrow, backup: { durable: true, verify: 'none' } },
    rules: ['198.51.100.0/24'],
    configuration: withArchive,
    earlier: branchAtBackup,
    act: moveToEnd,
    isDone: isMovedBranch,
  },
  {
    name: 'move of a branch to a moment that the archive does not have',
    copies: 1,
    before: { ipAllowlist: narrow, backup: { durable: true, verify: 'none' } },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    configuration: withArchive,
    earlier: branchAtBackup,
    act: (cluster, subject) => moveBranch(cluster, subject, { pointName: unreachedPoint }),
    isDone: hasNotMoved,
  },
  {
    name: 'branch that the storage cannot make',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    hasSnapshots: true,
    snapshots: { making: { mode: 'failing', message: 'the pool is full' } },
    configuration: { backups: { ...testConfiguration.backups, errorMs: 0 } },
    act: requestBranch,
    isDone: branchEndedAs('failed'),
  },
  {
    name: 'delete of a branch',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    earlier: { act: requestBranch, isDone: branchEndedAs('available') },
    act: deleteBranch,
    isDone: branchEndedAs('deleted'),
  },
  {
    name: 'delete of a branch while it is made',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    hasSnapshots: true,
    earlier: {
      snapshots: { making: { mode: 'cut' } },
      act: requestBranch,
      isDone: async cluster => {
        const [snapshot] = (await cluster.list('VolumeSnapshot')).items
        return snapshot?.status?.creationTime !== undefined
      },
    },
    act: deleteBranch,
    isDone: branchEndedAs('deleted'),
  },
  {
    name: 'delete with a branch, by force',
    takesAway: true,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    earlier: { act: requestBranch, isDone: branchEndedAs('available') },
    act: async (cluster, subject) => {
      await editSpec(cluster, subject.name, spec => spec, { [annotations.force]: 'true' })
      await cluster.delete('ManagedDatabase', key(subject))
    },
    isDone: async (cluster, subject) =>
      (await cluster.get('ManagedDatabase', key(subject))) === undefined &&
      (await cluster.list('Branch')).items.length === 0 &&
      (await allTasksEnded(cluster)),
  },
]
