/** The scenarios' backup requests, in the API's format, and when they are done. */
import type { Cluster } from '../../../cluster/index.ts'
import { annotations, apiVersion, childNames, labels, renderOperation } from '../../../crds/index.ts'
import { backupDraft, testNamespace } from '../installation.ts'
import { hasEnded } from './requests.ts'
import type { Subject } from './scenario.ts'

const backupId = '7a1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const backupTaskId = '77777777-2222-4333-8444-555555555555'
export const backupKey = ({ name }: Subject) => ({ namespace: testNamespace, name: `${name}-1` })

/** Requests a backup like the API, with its Task. */
export async function requestBackup(
  cluster: Cluster,
  subject: Subject,
  kind: 'hot' | 'durable' = 'hot',
): Promise<void> {
  const { name } = backupKey(subject)
  const draft = backupDraft(name, subject, { kind }, backupId)
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

/** The backup has ended. Its Task has ended, too, and is no longer in the status. */
export const backupEndedAs =
  (phase: string) =>
  async (cluster: Cluster, subject: Subject): Promise<boolean> => {
    const { status } = (await cluster.get('Backup', backupKey(subject))) ?? {}
    const task = { ...subject, taskId: backupTaskId }
    return status?.phase === phase && status.taskId === undefined && (await hasEnded(cluster, task))
  }
