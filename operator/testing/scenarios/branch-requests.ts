/** The scenarios' branch requests, in the API's format, and when they are done. */
import { type Cluster, isClusterError } from '../../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  type Branch,
  childNames,
  labels,
  type OperationName,
  type RestoreTarget,
  renderOperation,
  type ServiceConfig,
  targetText,
  teardownFinalizer,
} from '../../../crds/index.ts'
import { branchDraft } from '../branches.ts'
import { testNamespace } from '../installation.ts'
import { allTasksEnded, key, narrow } from './requests.ts'
import type { Subject } from './scenario.ts'

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

/** Requests a branch like the API, with its Task. */
export async function requestBranch(
  cluster: Cluster,
  subject: Subject,
  services: ServiceConfig[] = [],
  target?: Branch['spec']['target'],
): Promise<void> {
  const spec = { ipAllowlist: narrow, services, ...(target === undefined ? {} : { target }) }
  const draft = branchDraft(branchKey(subject).name, subject, spec, branchId)
  const operation = renderOperation({ taskId: branchTaskId, name: 'create-branch', hash: '' })
  const metadata = {
    ...draft.metadata,
    annotations: { [annotations.operation]: operation },
    finalizers: [teardownFinalizer],
  }
  await cluster.create('Branch', { ...draft, metadata })
  await branchTask(cluster, subject, 'create-branch', branchTaskId)
}

/** Requests the branch's deletion like the API. The Task is created later. */
export async function deleteBranch(cluster: Cluster, subject: Subject): Promise<void> {
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

/** Requests another target like the API. The Task is created later. */
export async function moveBranch(cluster: Cluster, subject: Subject, target: RestoreTarget): Promise<void> {
  for (;;) {
    const branch = await cluster.get('Branch', branchKey(subject))
    if (branch === undefined) throw new Error('there is no branch')
    const operation = renderOperation({ taskId: subject.taskId, name: 'move-branch', hash: targetText(target) })
    const metadata = { ...branch.metadata, annotations: { [annotations.operation]: operation } }
    try {
      await cluster.replace('Branch', { ...branch, metadata, spec: { ...branch.spec, target } })
      return
    } catch (error) {
      if (!isClusterError(error, 'Conflict')) throw error
    }
  }
}

/** The branch serves from its second volume, and no object of the first volume is left. */
export async function isMovedBranch(cluster: Cluster, subject: Subject): Promise<boolean> {
  const { status } = (await cluster.get('Branch', branchKey(subject))) ?? {}
  const left = [
    await cluster.get('StatefulSet', { namespace: testNamespace, name: childNames.statefulSet(branchId, 1) }),
    await cluster.get('ConfigMap', { namespace: testNamespace, name: childNames.configuration(branchId, 1) }),
    await cluster.get('PersistentVolumeClaim', { namespace: testNamespace, name: childNames.claim(branchId, 1) }),
    await cluster.get('Secret', { namespace: testNamespace, name: childNames.archiveSource(branchId, 2) }),
  ]
  const service = await cluster.get('Service', { namespace: testNamespace, name: childNames.service(branchId) })
  const policy = await cluster.get('NetworkPolicy', { namespace: testNamespace, name: childNames.service(branchId) })
  return (
    status?.phase === 'available' &&
    status.operation === undefined &&
    status.incarnation === 2 &&
    status.source?.target?.lsn !== undefined &&
    status.move?.deletedAt !== undefined &&
    service?.spec?.selector?.[labels.incarnation] === '2' &&
    policy?.spec?.egress === undefined &&
    left.every(object => object === undefined) &&
    (await allTasksEnded(cluster))
  )
}

/** The branch serves from its first volume, and no object of the second volume is left. */
export async function hasNotMoved(cluster: Cluster, subject: Subject): Promise<boolean> {
  const { status } = (await cluster.get('Branch', branchKey(subject))) ?? {}
  const left = [
    await cluster.get('StatefulSet', { namespace: testNamespace, name: childNames.statefulSet(branchId, 2) }),
    await cluster.get('ConfigMap', { namespace: testNamespace, name: childNames.configuration(branchId, 2) }),
    await cluster.get('PersistentVolumeClaim', { namespace: testNamespace, name: childNames.claim(branchId, 2) }),
    await cluster.get('Secret', { namespace: testNamespace, name: childNames.archiveSource(branchId, 2) }),
  ]
  return (
    status?.phase === 'available' &&
    status.operation === undefined &&
    status.incarnation === 1 &&
    status.source?.target?.backupName !== undefined &&
    status.move?.error !== undefined &&
    left.every(object => object === undefined) &&
    (await allTasksEnded(cluster))
  )
}

/** The branch serves, and none of its objects can access the archive any more. */
export async function isRecoveredBranch(cluster: Cluster, subject: Subject): Promise<boolean> {
  const branch = await cluster.get('Branch', branchKey(subject))
  const { items } = await cluster.list('Secret', { namespace: testNamespace })
  const reader = childNames.archiveSource(branchId, 1)
  const policy = await cluster.get('NetworkPolicy', { namespace: testNamespace, name: childNames.service(branchId) })
  return (
    branch?.status?.phase === 'available' &&
    branch.status.operation === undefined &&
    branch.status.source?.recovery !== undefined &&
    items.every(({ metadata }) => metadata.name !== reader) &&
    policy?.spec?.egress === undefined &&
    (await allTasksEnded(cluster))
  )
}

/**
 * The branch is reconciled, or at the end has no finalizer. Its Tasks have ended and are no longer in the status. No
 * objects of its source copy remain.
 */
export const branchEndedAs =
  (phase: 'available' | 'failed' | 'deleted') =>
  async (cluster: Cluster, subject: Subject): Promise<boolean> => {
    const { metadata, status } = (await cluster.get('Branch', branchKey(subject))) ?? {}
    const isDelayed = metadata?.finalizers?.includes(teardownFinalizer) === true
    const copies = [await cluster.list('Backup'), await cluster.list('VolumeSnapshot')]
    return (
      status?.phase === phase &&
      status.operation === undefined &&
      isDelayed === (phase === 'available') &&
      copies.every(({ items }) => items.length === 0) &&
      (await allTasksEnded(cluster)) &&
      (await cluster.get('ManagedDatabase', key(subject)))?.status?.branchCount === (phase === 'available' ? 1 : 0)
    )
  }
