/** Observes one branch from the caches. Reads the API server where an outdated cache could cause a wrong decision. */

import type { Cluster } from '../../cluster/index.ts'
import {
  type Backup,
  type Branch,
  branchPhase,
  childNames,
  isLiveBranch,
  isMoveRequested,
  labels,
  type ManagedDatabase,
  type RestoreTarget,
} from '../../crds/index.ts'
import { backupsOf } from '../backup/observe.ts'
import { recoveryOf } from '../backup/recovery.ts'
import type { Caches } from '../caches.ts'
import type { InstallationKeys } from '../keys.ts'
import { orderOf } from '../objects/order.ts'
import { observeIdentity, observeOperation } from '../owner/observe.ts'
import { type Observation, type OwnerObserver, observeInstance, type PriorFacts } from '../workload/observe.ts'
import { instanceOf, type Observed, type Source } from './observed.ts'

export async function observe(
  observer: OwnerObserver,
  branch: Branch,
  keys: InstallationKeys,
  prior: PriorFacts,
): Promise<Observation<Observed>> {
  const { caches, cluster, now } = observer
  const { uid = '', labels: objectLabels } = branch.metadata
  const id = objectLabels?.[labels.id]
  const others = id === undefined ? [] : othersWith(caches, id, uid)
  const { identity, owner, owned } = await observeIdentity(observer, branch, others)
  const isAtRest = branchPhase(branch) === 'available' && branch.status?.operation === undefined
  const services = { configs: branch.spec.services, isCopy: true }
  const request = { instance: instanceOf(branch, now(), observer.pods), owner, isAtRest, owned, services }
  const { observed, ...secrets } = await observeInstance(observer, request, keys, prior)
  const isCopied = branch.status?.source !== undefined
  const needsSource = !isCopied || isMoveRequested(branch)
  const source = needsSource ? await sourceOf(caches, cluster, branch) : undefined
  const { target } = branch.spec
  const recovery =
    needsSource && target !== undefined ? await recoveryFor({ caches, cluster }, branch, target, source) : {}
  return {
    observed: {
      ...observed,
      branch,
      identity,
      source,
      ...recovery,
      root: databaseOf(caches, branch),
      backup: await backupOf(caches, cluster, branch, id),
      exceeded: isCopied ? undefined : exceededLimit(caches, branch),
      ...(await observeOperation(observer, branch)),
    },
    ...secrets,
  }
}

/** Databases and other branches with the same id. */
const othersWith = (caches: Caches, id: string, uid: string) =>
  [...caches.databases.byIndex('id', id), ...caches.branches.byIndex('id', id)].filter(
    other => other.metadata.uid !== uid,
  )

const hasId = (id: string, object: Source | undefined): boolean => object?.metadata.labels?.[labels.id] === id

/** The branch's database, if its id is `spec.databaseId`. */
function databaseOf(caches: Caches, { metadata, spec }: Branch): ManagedDatabase | undefined {
  const found = caches.databases.get({ namespace: metadata.namespace, name: spec.databaseName })
  return hasId(spec.databaseId, found) ? found : undefined
}

/** Reads the API server before it reports a missing source, because a cache can lag. */
async function sourceOf(caches: Caches, cluster: Cluster, branch: Branch): Promise<Source | undefined> {
  const { metadata, spec } = branch
  const { namespace } = metadata
  const { sourceBranch } = spec
  if (sourceBranch === undefined) {
    const key = { namespace, name: spec.databaseName }
    const found = databaseOf(caches, branch) ?? (await cluster.get('ManagedDatabase', key))
    return hasId(spec.databaseId, found) ? found : undefined
  }
  const key = { namespace, name: sourceBranch.name }
  const cached = caches.branches.get(key)
  const found = hasId(sourceBranch.id, cached) ? cached : await cluster.get('Branch', key)
  return hasId(sourceBranch.id, found) ? found : undefined
}

/** The backup and WAL from which a branch's target can be recovered, or the reason why it cannot be recovered. */
async function recoveryFor(
  { caches, cluster }: Pick<OwnerObserver, 'caches' | 'cluster'>,
  { metadata: { namespace }, spec: { databaseId } }: Branch,
  target: RestoreTarget,
  source: Source | undefined,
): Promise<Pick<Observed, 'recovery'>> {
  const database = source?.kind === 'ManagedDatabase' ? source : undefined
  const { backupName: name } = target
  const backup = name === undefined ? undefined : await cluster.get('Backup', { namespace, name })
  const own = backup?.spec.databaseId === databaseId ? backup : undefined
  const backups = backupsOf(caches, namespace, databaseId)
  return { recovery: recoveryOf({ target, recorded: undefined, database, backup: own, backups }) }
}

/**
 * The cache omits fields of an ended Backup. So this function reads such a Backup from the API server until the
 * branch's source is recorded.
 */
async function backupOf(
  caches: Caches,
  cluster: Cluster,
  { metadata: { namespace }, status }: Branch,
  id: string | undefined,
): Promise<Backup | undefined> {
  if (id === undefined) return undefined
  const key = { namespace, name: childNames.prebranch(id) }
  const cached = caches.backups.get(key)
  const isToBeRead = cached?.status?.finishedAt !== undefined && status?.source === undefined
  return isToBeRead ? cluster.get('Backup', key) : cached
}

/**
 * Returns the branch limit if earlier branches have reached the limit. Espalier's API also checks this limit, but not
 * for a branch that a user creates with kubectl.
 */
function exceededLimit(caches: Caches, branch: Branch): number | undefined {
  const { metadata, spec } = branch
  const [tenant] = caches.tenants.byIndex('namespace', metadata.namespace ?? '')
  const limit = tenant?.spec.limits.branchesPerDatabase
  if (limit === undefined) return undefined
  const before = caches.branches
    .byIndex('database', `${metadata.namespace}/${spec.databaseName}`)
    .filter(other => other.spec.databaseId === spec.databaseId && isLiveBranch(other))
    .filter(other => other.metadata.uid !== metadata.uid && orderOf(other) < orderOf(branch))
  return before.length >= limit ? limit : undefined
}
