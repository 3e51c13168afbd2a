/** Observes an owner's state besides its Postgres: its id, and its operation's Task. */
import type { Branch, ManagedDatabase, Task } from '../../crds/index.ts'
import { childNames, labels } from '../../crds/index.ts'
import { orphanClaims } from '../children/orphans.ts'
import { type OwnedObjects, ownedObjects } from '../children/owned.ts'
import type { Observer } from '../member/observe.ts'
import { podsOf } from '../member/pod/pod.ts'
import type { Owner } from '../objects/ownership.ts'
import { isTerminating } from '../objects/terminating.ts'
import { findTask } from '../task/find.ts'
import { type Identity, identityOf } from '../workload/identity.ts'
import type { GuardedObserver } from '../workload/observe.ts'
import type { Observed } from './observed.ts'
import { hasEnded } from './operation.ts'

type OwnerObject = ManagedDatabase | Branch

type Identified = {
  identity: Identity
  /** Undefined until the owner has its id. */
  owner: Owner | undefined
  owned: OwnedObjects
}

/** `others`: other objects with the same id. */
export async function observeIdentity(
  { caches, cluster }: Observer,
  object: OwnerObject,
  others: readonly OwnerObject[],
): Promise<Identified> {
  const { namespace = '', uid = '', labels: objectLabels, deletionTimestamp } = object.metadata
  const id = objectLabels?.[labels.id]
  const own = ownedObjects(caches, namespace, { uid, id: undefined })
  const labelled = [...own.claims, ...own.secrets, ...own.services]
  const identity = identityOf(object, {
    childOwnerIds: labelled.map(child => child.metadata.labels?.[labels.database]),
    others,
    orphanClaims:
      id === undefined || others.length === 0 ? [] : await orphanClaims(caches, cluster, { namespace, uid, id }),
  })
  const owner = identity.state === 'settled' ? identity.owner : undefined
  // A deleted object that has no children of its own deletes none by id: another object in the namespace may own them.
  const hadNone = deletionTimestamp !== undefined && labelled.length === 0
  const isOrphan = hadNone && others.some(other => other.metadata.namespace === namespace)
  if (owner === undefined || isOrphan) return { identity, owner, owned: own }
  const owned = { ...ownedObjects(caches, namespace, owner), pods: podsOf(caches, owner.id, namespace) }
  return { identity, owner, owned }
}

/**
 * The Task with this id. No cache has ended Tasks. So this reads the cluster, but only if the pass depends on the Task.
 */
export async function observeTask(
  { caches, cluster }: Observer,
  namespace: string | undefined,
  taskId: string | undefined,
  mayHaveEnded: boolean,
): Promise<Task | undefined> {
  if (taskId === undefined) return undefined
  if (mayHaveEnded) return findTask({ caches, cluster }, namespace, taskId)
  return caches.tasks.get({ namespace, name: childNames.task(taskId) })
}

/** Facts that decide how the operation ends. */
export async function observeOperation(
  observer: GuardedObserver,
  { metadata, status }: OwnerObject,
): Promise<Pick<Observed, 'task' | 'isNamespaceGoing' | 'clockDistrust'>> {
  const { namespace = '', deletionTimestamp } = metadata
  const task = await observeTask(observer, namespace, status?.operation?.taskId, hasEnded(status))
  const isUnrecorded = deletionTimestamp !== undefined && task === undefined
  return {
    task,
    isNamespaceGoing: isUnrecorded && (await isTerminating(observer.cluster, namespace)),
    clockDistrust: observer.clock.distrust(),
  }
}
