/** Observes what every owner has besides its Postgres: its id, and the Task of its operation. */
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
  /** Undefined until the id is settled. */
  owner: Owner | undefined
  owned: OwnedObjects
}

/** `others`: further objects with the same id. */
export async function observeIdentity(
  { caches, cluster }: Observer,
  object: OwnerObject,
  others: readonly OwnerObject[],
): Promise<Identified> {
  const { namespace = '', uid = '', labels: marks, deletionTimestamp } = object.metadata
  const id = marks?.[labels.id]
  const own = ownedObjects(caches, namespace, { uid, id: undefined })
  const labelled = [...own.claims, ...own.secrets, ...own.services]
  const identity = identityOf(object, {
    childrenSay: labelled.map(child => child.metadata.labels?.[labels.database]),
    others,
    orphanClaims:
      id === undefined || others.length === 0 ? [] : await orphanClaims(caches, cluster, { namespace, uid, id }),
  })
  const owner = identity.state === 'settled' ? identity.owner : undefined
  // An object that is deleted without ever having had a child deletes nothing that another one beside it may have had.
  const hadNone = deletionTimestamp !== undefined && labelled.length === 0
  const isLeft = hadNone && others.some(other => other.metadata.namespace === namespace)
  if (owner === undefined || isLeft) return { identity, owner, owned: own }
  const owned = { ...ownedObjects(caches, namespace, owner), pods: podsOf(caches, owner.id, namespace) }
  return { identity, owner, owned }
}

/** The Task of this id. One that has ended is in no cache: the cluster is read only where the pass depends on it. */
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

/** What the end of the object's operation depends on. */
export async function observeOperation(
  observer: GuardedObserver,
  { metadata, status }: OwnerObject,
): Promise<Pick<Observed, 'task' | 'isNamespaceGoing' | 'clockDoubt'>> {
  const { namespace = '', deletionTimestamp } = metadata
  const task = await observeTask(observer, namespace, status?.operation?.taskId, hasEnded(status))
  const isUnrecorded = deletionTimestamp !== undefined && task === undefined
  return {
    task,
    isNamespaceGoing: isUnrecorded && (await isTerminating(observer.cluster, namespace)),
    clockDoubt: observer.clock.doubt(),
  }
}
