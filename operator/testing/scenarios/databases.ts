/** Creation, change, suspension and deletion of a database. */
import type { Cluster } from '../../../cluster/index.ts'
import { annotations, childNames, desiredHash, renderOperation, rotationAnnotations } from '../../../crds/index.ts'
import { editSpec, testNamespace } from '../installation.ts'
import { backupEndedAs, backupKey, requestBackup } from './backup-requests.ts'
import {
  annotationOf,
  change,
  createDatabase,
  createTask,
  hasEnded,
  key,
  narrow,
  reconciledAs,
  wide,
} from './requests.ts'
import type { Scenario, Subject } from './scenario.ts'

/** Whether the Secrets for the database's clients exist. */
async function hasSecrets(cluster: Cluster, subject: Subject): Promise<boolean> {
  const { status } = (await cluster.get('ManagedDatabase', key(subject))) ?? {}
  return status?.conditions?.find(({ type }) => type === 'SecretsReady')?.reason === 'Written'
}

/** Whether the snapshot of a backup has been requested from the storage. */
const isRequested = async (cluster: Cluster, subject: Subject): Promise<boolean> =>
  (await cluster.get('Backup', backupKey(subject)))?.status?.snapshotName !== undefined

/** Completes the snapshot, like the storage. */
async function makeSnapshot(cluster: Cluster): Promise<void> {
  const [snapshot] = (await cluster.list('VolumeSnapshot')).items
  if (snapshot === undefined || snapshot.status?.readyToUse === true) return
  const creationTime = snapshot.metadata.creationTimestamp ?? ''
  await cluster.replaceStatus('VolumeSnapshot', { ...snapshot, status: { creationTime, readyToUse: true } })
}

/** Whether the database's suspension waits for that backup while Postgres runs. */
async function isAwaited(cluster: Cluster, subject: Subject): Promise<boolean> {
  const database = await cluster.get('ManagedDatabase', key(subject))
  const pod = await cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(subject.id, 1) })
  const progressing = database?.status?.conditions?.find(({ type }) => type === 'Progressing')
  return pod !== undefined && progressing?.reason === 'AwaitsBackup'
}

export const databaseScenarios: Scenario[] = [
  {
    name: 'create',
    before: undefined,
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      await createDatabase(cluster, subject, { ipAllowlist: narrow })
      await createTask(cluster, subject, 'create-managed')
    },
    isDone: reconciledAs('available'),
  },
  {
    name: 'patch of name and allowlist, the API gone before it made the task',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24', '203.0.113.7/32'],
    act: (cluster, subject) =>
      change(cluster, subject, 'update-managed', spec => ({ ...spec, displayName: 'Ledger', ipAllowlist: wide })),
    isDone: reconciledAs('available'),
  },
  {
    name: 'allowlist narrowed',
    before: { ipAllowlist: wide },
    rules: ['198.51.100.0/24', '203.0.113.7/32'],
    act: async (cluster, subject) => {
      await change(cluster, subject, 'update-managed-ip-allowlists', spec => ({ ...spec, ipAllowlist: narrow }))
      await createTask(cluster, subject, 'update-managed-ip-allowlists')
    },
    isDone: reconciledAs('available'),
  },
  {
    name: 'restart',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', key(subject))
      if (database === undefined) throw new Error('there is no database to restart')
      const restart = '2026-01-01T00:00:00Z'
      const hash = desiredHash({ ...database.spec, restart })
      await editSpec(cluster, subject.name, spec => spec, {
        [annotations.restart]: restart,
        [annotations.operation]: renderOperation({ taskId: subject.taskId, name: 'restart-managed', hash }),
      })
      await createTask(cluster, subject, 'restart-managed')
    },
    isDone: reconciledAs('available'),
  },
  {
    name: 'rotation of a password',
    before: { ipAllowlist: narrow, credentials: { secrets: true } },
    rules: ['198.51.100.0/24'],
    rotates: 'app',
    act: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', key(subject))
      if (database === undefined) throw new Error('there is no database')
      const rotation = '2026-01-01T00:00:00Z'
      const hash = desiredHash({ ...database.spec, rotations: { app: rotation } })
      await editSpec(cluster, subject.name, spec => spec, {
        [rotationAnnotations.app]: rotation,
        [annotations.operation]: renderOperation({ taskId: subject.taskId, name: 'rotate-password-managed', hash }),
      })
      await createTask(cluster, subject, 'rotate-password-managed')
    },
    isDone: async (cluster, subject) =>
      (await hasSecrets(cluster, subject)) && reconciledAs('available')(cluster, subject),
  },
  {
    name: 'suspend',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      await change(cluster, subject, 'suspend-managed', spec => ({ ...spec, suspended: true }))
      await createTask(cluster, subject, 'suspend-managed')
    },
    isDone: reconciledAs('suspended'),
  },
  {
    name: 'suspend, while a backup is taken',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    snapshots: { making: { mode: 'held' } },
    earlier: { act: requestBackup, isDone: isRequested, snapshots: { making: { mode: 'held' } } },
    act: (cluster, subject) => change(cluster, subject, 'suspend-managed', spec => ({ ...spec, suspended: true })),
    isDone: async (cluster, subject) => {
      if (await isAwaited(cluster, subject)) await makeSnapshot(cluster)
      return (await backupEndedAs('completed')(cluster, subject)) && reconciledAs('suspended')(cluster, subject)
    },
  },
  {
    name: 'resume',
    before: { ipAllowlist: narrow, suspended: true },
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      await change(cluster, subject, 'resume-managed', spec => ({ ...spec, suspended: false }))
      await createTask(cluster, subject, 'resume-managed')
    },
    isDone: reconciledAs('available'),
  },
  {
    name: 'delete',
    takesAway: true,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', key(subject))
      if (database === undefined) throw new Error('there is no database to delete')
      await editSpec(cluster, subject.name, spec => spec, annotationOf(subject, 'delete-managed', database.spec))
      await cluster.delete('ManagedDatabase', key(subject))
      await createTask(cluster, subject, 'delete-managed')
    },
    isDone: async (cluster, subject) =>
      (await cluster.get('ManagedDatabase', key(subject))) === undefined && (await hasEnded(cluster, subject)),
  },
]
