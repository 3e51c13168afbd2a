/** What scenarios request of branches, as the API writes it, and when it is done. */
import { type Cluster, isClusterError } from '../../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  childNames,
  labels,
  type OperationName,
  renderOperation,
  type ServiceConfig,
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
