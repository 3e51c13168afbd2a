/** Does what a plan names to the branch itself; what concerns its Postgres is the workload's to do. */
import type { Cluster } from '../../cluster/index.ts'
import { type Branch, childNames, labels } from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import { createTaken } from '../backup/taken.ts'
import { identified, letGo } from '../objects/held.ts'
import { type Done, type Executor, type Pass, perform as performInstance } from '../workload/act.ts'
import { deleteLeftovers, LeftoversError } from '../workload/leftovers.ts'
import type { Action } from './actions.ts'
import type { Observed } from './observed.ts'
import { ownBackup, prebranchOf } from './plan/prebranch.ts'

/** `released`: nothing more can be said of the branch, or has been said. */
export async function perform(
  executor: Executor & { newId: IdSource },
  pass: Pass & { observed: Observed },
  action: Action,
): Promise<Done | 'released'> {
  const { cluster, newId } = executor
  const { branch } = pass.observed
  const { namespace, name, uid } = branch.metadata
  switch (action.do) {
    case 'identify':
      await cluster.replace('Branch', identified(branch, action.id ?? newId()))
      return 'released'
    case 'create-backup':
      await createBackup(cluster, branch, action.draft, newId())
      return 'done'
    case 'request-deletion':
      await cluster.replace('Branch', { ...branch, spec: { ...branch.spec, deletionRequestedAt: action.at } })
      return 'released'
    case 'entomb':
      await deleteRest(cluster, pass.observed)
      await cluster.replaceStatus('Branch', { ...branch, status: action.status })
      return 'released'
    case 'release':
      await deleteRest(cluster, pass.observed)
      await cluster.replace('Branch', letGo(branch))
      return 'released'
    case 'purge':
      await cluster.delete('Branch', { namespace, name }, { uid })
      return 'released'
    default:
      return performInstance(executor, pass, action)
  }
}

async function createBackup(
  cluster: Cluster,
  branch: Branch,
  draft: Extract<Action, { do: 'create-backup' }>['draft'],
  id: string,
): Promise<void> {
  const metadata = { ...draft.metadata, labels: { ...draft.metadata.labels, [labels.id]: id } }
  await createTaken(cluster, { ...draft, metadata }, prebranchOf(branch.spec))
}

/** Nothing is left that no cache knew of, what it was copied from included. @throws LeftoversError; ClusterError */
async function deleteRest(cluster: Cluster, { branch, instance }: Observed): Promise<void> {
  await deleteLeftovers(cluster, instance)
  const id = branch.metadata.labels?.[labels.id]
  if (id === undefined) return
  const key = { namespace: branch.metadata.namespace, name: childNames.prebranch(id) }
  const backup = await cluster.get('Backup', key)
  if (backup === undefined || ownBackup({ branch, backup }) === undefined) return
  await cluster.delete('Backup', key, { uid: backup.metadata.uid })
  throw new LeftoversError(`deleted ${key.name}, which was left`)
}
