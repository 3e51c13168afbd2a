/** Executes the actions that are specific to branches. */
import type { Cluster } from '../../cluster/index.ts'
import { type Branch, labels } from '../../crds/index.ts'
import { createTaken } from '../objects/operator-backups.ts'
import { deleteRemains } from '../owner/finalizer.ts'
import type { Executor, Pass, Result } from '../owner/kind.ts'
import type { OwnAction } from './actions.ts'
import { remainingBackups } from './deletion.ts'
import type { BranchStatus, Observed } from './observed.ts'
import { prebranchOf } from './plan/prebranch.ts'
import { deleteReplaced } from './replaced.ts'

export async function perform(
  { cluster, newId }: Executor,
  { observed }: Pass<Observed>,
  action: OwnAction,
): Promise<Result<BranchStatus>> {
  const { branch, instance } = observed
  const { namespace, name, uid } = branch.metadata
  switch (action.do) {
    case 'create-backup':
      await createBackup(cluster, branch, action.draft, newId())
      return 'done'
    case 'request-deletion':
      await cluster.replace('Branch', { ...branch, spec: { ...branch.spec, deletionRequestedAt: action.at } })
      return 'replaced'
    case 'leave-record':
      await deleteRemains(cluster, instance, () => remainingBackups(cluster, observed))
      return { status: action.status }
    case 'delete-replaced':
      return (await deleteReplaced(cluster, branch, action.replaced)) ? { status: action.status } : 'done'
    case 'delete-record':
      await cluster.delete('Branch', { namespace, name }, { uid })
      return 'replaced'
  }
}

async function createBackup(
  cluster: Cluster,
  branch: Branch,
  draft: Extract<OwnAction, { do: 'create-backup' }>['draft'],
  id: string,
): Promise<void> {
  const metadata = { ...draft.metadata, labels: { ...draft.metadata.labels, [labels.id]: id } }
  await createTaken(cluster, { ...draft, metadata }, prebranchOf(branch.spec))
}
