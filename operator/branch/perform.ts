/** Does what a plan names to the branch itself; what concerns its Postgres is the workload's to do. */
import { type Cluster, isClusterError } from '../../cluster/index.ts'
import { type Branch, childNames, labels } from '../../crds/index.ts'
import type { IdSource } from '../../values/id.ts'
import { identified, letGo } from '../objects/held.ts'
import { LeftoversError } from '../workload/errors.ts'
import { type Done, type Executor, type Pass, perform as performInstance } from '../workload/execute.ts'
import { deleteLeftovers } from '../workload/leftovers.ts'
import type { Action } from './actions.ts'
import type { Observed } from './observed.ts'

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
      await createBackup(cluster, action.draft, newId())
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

/** One that is there already, made by another pass, is the one. */
async function createBackup(
  cluster: Cluster,
  draft: Extract<Action, { do: 'create-backup' }>['draft'],
  id: string,
): Promise<void> {
  const metadata = { ...draft.metadata, labels: { ...draft.metadata.labels, [labels.id]: id } }
  try {
    await cluster.create('Backup', { ...draft, metadata })
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
  }
}

/** Nothing is left that no cache knew of, what it was copied from included. @throws LeftoversError; ClusterError */
async function deleteRest(cluster: Cluster, { branch, instance }: Observed): Promise<void> {
  await deleteLeftovers(cluster, instance)
  const id = branch.metadata.labels?.[labels.id]
  if (id === undefined) return
  const key = { namespace: branch.metadata.namespace, name: childNames.prebranch(id) }
  const backup = await cluster.get('Backup', key)
  if (backup === undefined || !isOf(branch, backup.spec)) return
  await cluster.delete('Backup', key, { uid: backup.metadata.uid })
  throw new LeftoversError(`deleted ${key.name}, which was left`)
}

const isOf = ({ spec }: Branch, { purpose, databaseId }: { purpose: string; databaseId: string }): boolean =>
  purpose === 'prebranch' && databaseId === spec.databaseId
