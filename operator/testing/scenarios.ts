/** The operations that are swept for crashes: how each is asked for, as the API would, and when it is done. */
import { type Cluster, isClusterError } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  askedBy,
  childNames,
  desiredHash,
  labels,
  type ManagedDatabase,
  type OperationName,
  renderAskedRestore,
  renderOperation,
  rotationAnnotations,
  type ServiceConfig,
  systemNamespace,
  teardownFinalizer,
} from '../../crds/index.ts'
import {
  authoritySecret,
  authorityStateSecret,
  type DatabaseRole,
  nextAuthoritySecret,
  rotateAnnotation,
} from '../../sealing/credentials.ts'
import { readState } from '../authority/state.ts'
import type { OperatorConfiguration } from '../index.ts'
import { branchDraft } from './branches.ts'
import type { FakeSnapshots } from './fake-snapshots.ts'
import type { FakeVolumes } from './fake-volumes.ts'
import { backupDraft, databaseDraft, editSpec, testConfiguration, testNamespace } from './installation.ts'

export type Scenario = {
  name: string
  /** The database before; absent: there is none. */
  before: Partial<ManagedDatabase['spec']> | undefined
  /** Everything that any client may be let in by, before or after. */
  rules: string[]
  /** Its Task may fail: what is asked cannot be had. */
  mayFail?: true
  /** Somebody deletes its volume: that is told by its phase, and the record comes to name another claim. */
  isEndangered?: true
  /** The role whose password is replaced. */
  rotates?: DatabaseRole
  /** The database is gone in the end. */
  takesAway?: true
  /** How many branches the database has in the end; absent: none. */
  copies?: number
  /** How many images of volumes there are in the end; absent: none. */
  images?: number
  /** Another volume takes the place of the one on record, which stays: both hold data in the end. */
  isRestored?: true
  /** The volume that was replaced is deleted in the end. */
  discards?: true
  /** Swept by `make soak` only. */
  isLong?: true
  /** The region's volumes can have snapshots. */
  hasSnapshots?: true
  /** What becomes of snapshots from then on. */
  snapshots?: Partial<Pick<FakeSnapshots, 'making'>>
  /** What becomes of volumes from then on. */
  volumes?: Partial<Pick<FakeVolumes, 'growth' | 'refusal'>>
  /** What the data take up of their volume from then on, in bytes. */
  volumeUse?: number
  /** What was asked before, and could not be had. */
  earlier?: Pick<Scenario, 'act' | 'isDone' | 'volumes' | 'snapshots'>
  act(cluster: Cluster, database: Subject): Promise<void>
  isDone(cluster: Cluster, database: Subject): Promise<boolean>
  /** How the operator is configured otherwise than usually. */
  configuration?: Partial<OperatorConfiguration>
}

export type Subject = { name: string; id: string; taskId: string }

const secretOf = (cluster: Cluster, name: string) => cluster.get('Secret', { namespace: systemNamespace, name })

const key = ({ name }: Subject) => ({ namespace: testNamespace, name })
const narrow = { rules: [{ cidr: '198.51.100.0/24' }] }
const wide = { rules: [{ cidr: '198.51.100.0/24' }, { cidr: '203.0.113.7' }] }

/** The Task as the API makes it after its write. */
export async function createTask(
  cluster: Cluster,
  { name, id, taskId }: Subject,
  operation: OperationName,
): Promise<void> {
  await cluster.create('Task', {
    apiVersion,
    kind: 'Task',
    metadata: {
      name: childNames.task(taskId),
      namespace: testNamespace,
      labels: { [labels.id]: taskId, [labels.subject]: id },
    },
    spec: { name: operation, subject: { kind: 'database', id, name }, request: { asked: true } },
  })
}

const hasEnded = async (cluster: Cluster, { taskId }: Subject): Promise<boolean> => {
  const task = await cluster.get('Task', { namespace: testNamespace, name: childNames.task(taskId) })
  return task?.status?.finishedAt !== undefined
}

const restoreName = 'swept-back'
const anotherId = '3c1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'

const toLarge = (spec: ManagedDatabase['spec']) => ({ ...spec, size: { name: 'large', version: 1 } })

/** Settled, its operation forgotten, and its Task at an end. */
export const settledAs =
  (phase: string, size = 'small') =>
  async (cluster: Cluster, subject: Subject): Promise<boolean> => {
    const database = await cluster.get('ManagedDatabase', key(subject))
    const { status } = database ?? {}
    return (
      database !== undefined &&
      status?.phase === phase &&
      status.size?.name === size &&
      status.operation === undefined &&
      status.appliedHash === desiredHash(askedBy(database)) &&
      (await hasEnded(cluster, subject))
    )
  }

/** Whether the Secrets for its clients are written. */
async function hasSecrets(cluster: Cluster, subject: Subject): Promise<boolean> {
  const { status } = (await cluster.get('ManagedDatabase', key(subject))) ?? {}
  return status?.conditions?.find(({ type }) => type === 'SecretsReady')?.reason === 'Written'
}

const annotationOf = (subject: Subject, name: OperationName, spec: ManagedDatabase['spec']) => ({
  [annotations.operation]: renderOperation({ taskId: subject.taskId, name, hash: desiredHash(spec) }),
})

/** A database as the API writes it. */
export async function createDatabase(
  cluster: Cluster,
  subject: Subject,
  spec: Partial<ManagedDatabase['spec']>,
): Promise<void> {
  const draft = databaseDraft(subject.name, spec, subject.id)
  const { ipAllowlist = { rules: [] }, suspended = false, services = [] } = spec
  const hash = desiredHash({ services, ipAllowlist, size: { name: 'small', version: 1 }, suspended })
  const operation = renderOperation({ taskId: subject.taskId, name: 'create-managed', hash })
  const metadata = { ...draft.metadata, annotations: { [annotations.operation]: operation } }
  await cluster.create('ManagedDatabase', { ...draft, metadata })
}

/** A change as the API writes it: spec and annotation at once. */
export async function change(
  cluster: Cluster,
  subject: Subject,
  name: OperationName,
  edit: (spec: ManagedDatabase['spec']) => ManagedDatabase['spec'],
): Promise<void> {
  const database = await cluster.get('ManagedDatabase', key(subject))
  if (database === undefined) throw new Error('there is no database to change')
  await editSpec(cluster, subject.name, edit, annotationOf(subject, name, edit(database.spec)))
}

const backupId = '7a1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const backupTaskId = '77777777-2222-4333-8444-555555555555'
const backupKey = ({ name }: Subject) => ({ namespace: testNamespace, name: `${name}-1` })

/** A backup as the API asks for it, and its Task. */
async function askBackup(cluster: Cluster, subject: Subject): Promise<void> {
  const { name } = backupKey(subject)
  const draft = backupDraft(name, subject, {}, backupId)
  const operation = renderOperation({ taskId: backupTaskId, name: 'backup-managed', hash: '' })
  const metadata = { ...draft.metadata, annotations: { [annotations.operation]: operation } }
  await cluster.create('Backup', { ...draft, metadata })
  await cluster.create('Task', {
    apiVersion,
    kind: 'Task',
    metadata: { name: childNames.task(backupTaskId), namespace: testNamespace, labels: { [labels.id]: backupTaskId } },
    spec: { name: 'backup-managed', subject: { kind: 'backup', id: backupId, name } },
  })
}

/** Ended, and so has its Task, and that is forgotten. */
const backupEndedAs =
  (phase: string) =>
  async (cluster: Cluster, subject: Subject): Promise<boolean> => {
    const { status } = (await cluster.get('Backup', backupKey(subject))) ?? {}
    const task = { ...subject, taskId: backupTaskId }
    return status?.phase === phase && status.taskId === undefined && (await hasEnded(cluster, task))
  }

const branchId = '8b1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const branchTaskId = '88888888-2222-4333-8444-555555555555'
export const branchKey = ({ name }: Subject) => ({ namespace: testNamespace, name: `${name}-2c3d4e5f` })

async function branchTask(cluster: Cluster, subject: Subject, name: OperationName, taskId: string): Promise<void> {
  await cluster.create('Task', {
    apiVersion,
    kind: 'Task',
    metadata: { name: childNames.task(taskId), namespace: testNamespace, labels: { [labels.id]: taskId } },
    spec: { name, subject: { kind: 'branch', id: branchId, name: branchKey(subject).name } },
  })
}

/** A branch as the API asks for it, and its Task. */
export async function askBranch(cluster: Cluster, subject: Subject, services: ServiceConfig[] = []): Promise<void> {
  const draft = branchDraft(branchKey(subject).name, subject, { ipAllowlist: narrow, services }, branchId)
  const operation = renderOperation({ taskId: branchTaskId, name: 'create-branch', hash: '' })
  const metadata = {
    ...draft.metadata,
    annotations: { [annotations.operation]: operation },
    finalizers: [teardownFinalizer],
  }
  await cluster.create('Branch', { ...draft, metadata })
  await branchTask(cluster, subject, 'create-branch', branchTaskId)
}

/** Its deletion as the API asks for it; the Task is made later. */
async function deleteBranch(cluster: Cluster, subject: Subject): Promise<void> {
  for (;;) {
    const branch = await cluster.get('Branch', branchKey(subject))
    if (branch === undefined) throw new Error('there is no branch')
    const operation = renderOperation({ taskId: subject.taskId, name: 'delete-branch', hash: '' })
    const metadata = { ...branch.metadata, annotations: { [annotations.operation]: operation } }
    const spec = { ...branch.spec, deletionRequestedAt: '2026-01-01T00:00:00Z' }
    try {
      await cluster.replace('Branch', { ...branch, metadata, spec })
      return
    } catch (error) {
      if (!isClusterError(error, 'Conflict')) throw error
    }
  }
}

/** Settled, held no more where that is its end, its Tasks ended and forgotten, and nothing left of what it was copied from. */
export const branchEndedAs =
  (phase: 'available' | 'failed' | 'deleted') =>
  async (cluster: Cluster, subject: Subject): Promise<boolean> => {
    const { metadata, status } = (await cluster.get('Branch', branchKey(subject))) ?? {}
    const isHeld = metadata?.finalizers?.includes(teardownFinalizer) === true
    const copies = [await cluster.list('Backup'), await cluster.list('VolumeSnapshot')]
    return (
      status?.phase === phase &&
      status.operation === undefined &&
      isHeld === (phase === 'available') &&
      copies.every(({ items }) => items.length === 0) &&
      (await allTasksEnded(cluster)) &&
      (await cluster.get('ManagedDatabase', key(subject)))?.status?.branchCount === (phase === 'available' ? 1 : 0)
    )
  }

export const allTasksEnded = async (cluster: Cluster): Promise<boolean> =>
  (await cluster.list('Task', { namespace: testNamespace })).items.every(task => task.status?.finishedAt !== undefined)

/** Somebody deletes the claim, or the volume, of a database that runs. */
async function deleteVolume(cluster: Cluster, { id }: Subject, what: ('claim' | 'volume')[]): Promise<void> {
  const claim = await cluster.get('PersistentVolumeClaim', { namespace: testNamespace, name: childNames.claim(id, 1) })
  const { name = '', namespace } = claim?.metadata ?? {}
  if (what.includes('volume')) await cluster.delete('PersistentVolume', { name: claim?.spec?.volumeName ?? '' })
  if (what.includes('claim')) await cluster.delete('PersistentVolumeClaim', { namespace, name })
}

/** All there are: a swept database is alone in its cluster. */
const volumesOf = async (cluster: Cluster) => (await cluster.list('PersistentVolume')).items

/** At rest on one volume, that is retained no more. */
const isRescued = async (cluster: Cluster, subject: Subject): Promise<boolean> => {
  const [volume, ...others] = await volumesOf(cluster)
  const database = await cluster.get('ManagedDatabase', key(subject))
  const ready = database?.status?.conditions?.find(({ type }) => type === 'VolumeReady')
  const isBack = volume?.spec?.persistentVolumeReclaimPolicy === 'Delete' && others.length === 0
  return isBack && ready?.reason === 'Bound' && (await settledAs('available', 'large')(cluster, subject))
}

/** Whether the storage has been asked for the snapshot of a backup. */
const isAsked = async (cluster: Cluster, subject: Subject): Promise<boolean> =>
  (await cluster.get('Backup', backupKey(subject)))?.status?.snapshotName !== undefined

/** The storage has made it at last. */
async function makeSnapshot(cluster: Cluster): Promise<void> {
  const [snapshot] = (await cluster.list('VolumeSnapshot')).items
  if (snapshot === undefined || snapshot.status?.readyToUse === true) return
  const creationTime = snapshot.metadata.creationTimestamp ?? ''
  await cluster.replaceStatus('VolumeSnapshot', { ...snapshot, status: { creationTime, readyToUse: true } })
}

/** Whether its suspension waits for that backup, while Postgres runs. */
async function isAwaited(cluster: Cluster, subject: Subject): Promise<boolean> {
  const database = await cluster.get('ManagedDatabase', key(subject))
  const pod = await cluster.get('Pod', { namespace: testNamespace, name: childNames.pod(subject.id, 1) })
  const progressing = database?.status?.conditions?.find(({ type }) => type === 'Progressing')
  return pod !== undefined && progressing?.reason === 'AwaitsBackup'
}

const toLargeWhile = (what: ('claim' | 'volume')[]): Scenario => ({
  name: `size, while somebody deletes the ${what.join(' and the ')}`,
  before: { ipAllowlist: narrow },
  rules: ['198.51.100.0/24'],
  isEndangered: true,
  act: async (cluster, subject) => {
    await deleteVolume(cluster, subject, what)
    await change(cluster, subject, 'update-managed-size', toLarge)
  },
  isDone: isRescued,
})

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

export const scenarios: Scenario[] = [
  toLargeWhile(['claim']),
  toLargeWhile(['volume']),
  {
    name: 'delete, while somebody deletes the volume and the claim',
    takesAway: true,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    isEndangered: true,
    act: async (cluster, subject) => {
      await deleteVolume(cluster, subject, ['volume', 'claim'])
      await cluster.delete('ManagedDatabase', key(subject))
    },
    isDone: async (cluster, subject) =>
      (await cluster.get('ManagedDatabase', key(subject))) === undefined &&
      (await volumesOf(cluster)).length === 0 &&
      (await allTasksEnded(cluster)),
  },
  {
    name: 'create',
    before: undefined,
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      await createDatabase(cluster, subject, { ipAllowlist: narrow })
      await createTask(cluster, subject, 'create-managed')
    },
    isDone: settledAs('available'),
  },
  {
    name: 'patch of name and allowlist, the API gone before it made the task',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24', '203.0.113.7/32'],
    act: (cluster, subject) =>
      change(cluster, subject, 'update-managed', spec => ({ ...spec, displayName: 'Ledger', ipAllowlist: wide })),
    isDone: settledAs('available'),
  },
  {
    name: 'allowlist narrowed',
    before: { ipAllowlist: wide },
    rules: ['198.51.100.0/24', '203.0.113.7/32'],
    act: async (cluster, subject) => {
      await change(cluster, subject, 'update-managed-ip-allowlists', spec => ({ ...spec, ipAllowlist: narrow }))
      await createTask(cluster, subject, 'update-managed-ip-allowlists')
    },
    isDone: settledAs('available'),
  },
  {
    name: 'size',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
    isDone: settledAs('available', 'large'),
  },
  {
    name: 'size, refused by a quota',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    volumes: { refusal: 'exceeded quota: storage' },
    act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
    isDone: settledAs('available', 'small'),
  },
  {
    name: 'size, refused before and admitted now',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    earlier: {
      volumes: { refusal: 'exceeded quota: storage' },
      act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
      isDone: settledAs('available', 'small'),
    },
    act: async () => {},
    isDone: settledAs('available', 'large'),
  },
  {
    name: 'a volume that fills grows by itself, by two steps',
    before: { ipAllowlist: narrow, storage: { autogrow: { atPercent: 80, stepPercent: 25, maxSize: '2Gi' } } },
    rules: ['198.51.100.0/24'],
    volumeUse: 1.2 * 2 ** 30,
    act: async () => {},
    isDone: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', key(subject))
      const { phase, storage, conditions } = database?.status ?? {}
      const isTold = conditions?.some(({ type }) => type === 'VolumeGrown') === true
      return phase === 'available' && storage?.capacity === '1600Mi' && storage.growsTo === undefined && !isTold
    },
  },
  {
    name: 'size, that the storage driver cannot give',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    volumes: { growth: { mode: 'failing', message: 'the pool is full' } },
    act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
    isDone: settledAs('available', 'small'),
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
    isDone: settledAs('available'),
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
      (await hasSecrets(cluster, subject)) && settledAs('available')(cluster, subject),
  },
  {
    name: 'suspend',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      await change(cluster, subject, 'suspend-managed', spec => ({ ...spec, suspended: true }))
      await createTask(cluster, subject, 'suspend-managed')
    },
    isDone: settledAs('suspended'),
  },
  {
    name: 'suspend, while a backup is taken',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    hasSnapshots: true,
    snapshots: { making: { mode: 'held' } },
    earlier: { act: askBackup, isDone: isAsked, snapshots: { making: { mode: 'held' } } },
    act: (cluster, subject) => change(cluster, subject, 'suspend-managed', spec => ({ ...spec, suspended: true })),
    isDone: async (cluster, subject) => {
      if (await isAwaited(cluster, subject)) await makeSnapshot(cluster)
      return (await backupEndedAs('completed')(cluster, subject)) && settledAs('suspended')(cluster, subject)
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
    isDone: settledAs('available'),
  },
  {
    name: 'resume with another size of what never ran, so that its claim is replaced',
    before: { ipAllowlist: narrow, suspended: true },
    rules: ['198.51.100.0/24'],
    act: (cluster, subject) =>
      change(cluster, subject, 'update-managed', spec => ({ ...toLarge(spec), suspended: false })),
    isDone: settledAs('available', 'large'),
  },
  {
    name: 'authority',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    configuration: { authority: { announceMs: 0, settleMs: 0, lookMs: 5 } },
    act: async cluster => {
      const secret = await secretOf(cluster, authoritySecret)
      if (secret === undefined) throw new Error('there is no authority')
      await cluster.replace('Secret', {
        ...secret,
        metadata: { ...secret.metadata, annotations: { [rotateAnnotation]: 'true' } },
      })
    },
    isDone: async (cluster, { id }) => {
      const [given, next, state, tls] = await Promise.all([
        secretOf(cluster, authoritySecret),
        secretOf(cluster, nextAuthoritySecret),
        secretOf(cluster, authorityStateSecret),
        cluster.get('Secret', { namespace: testNamespace, name: childNames.tls(id) }),
      ])
      const [certificate, trusted] = [given?.data?.['tls.crt'], tls?.data?.['ca.crt']]
      const isAtRest = readState(state)?.authorities.length === 1 && given?.immutable === true && next === undefined
      return isAtRest && certificate !== undefined && certificate === trusted
    },
  },
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
