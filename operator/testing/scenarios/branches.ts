/** Branches, and databases that are deleted with them. */
import { annotations } from '../../../crds/index.ts'
import { editSpec, testConfiguration } from '../installation.ts'
import { askBranch, branchEndedAs, deleteBranch } from './branch-requests.ts'
import { allTasksEnded, key, narrow } from './requests.ts'
import type { Scenario } from './scenario.ts'

export const branchScenarios: Scenario[] = [
  {
    name: 'branch',
    copies: 1,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    act: (cluster, subject) => askBranch(cluster, subject),
    isDone: branchEndedAs('available'),
  },
  {
    name: 'branch that the storage cannot make',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    hasSnapshots: true,
    snapshots: { making: { mode: 'failing', message: 'the pool is full' } },
    configuration: { backups: { ...testConfiguration.backups, errorMs: 0 } },
    act: askBranch,
    isDone: branchEndedAs('failed'),
  },
  {
    name: 'delete of a branch',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    earlier: { act: askBranch, isDone: branchEndedAs('available') },
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
      act: askBranch,
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
    earlier: { act: askBranch, isDone: branchEndedAs('available') },
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
