/** Observes what every owner has besides its Postgres: its id, and the Task of its operation. */
import type { Branch, ManagedDatabase, Task } from '../../crds/index.ts'
import { childNames, labels } from '../../crds/index.ts'
import { strayClaims } from '../children/strays.ts'
import type { Observer } from '../member/observe.ts'
import { podsOf } from '../member/pod/pod.ts'
import type { Owner } from '../objects/ownership.ts'
import { isTerminating } from '../objects/terminating.ts'
import { type Remains, remainsOf } from '../owned/objects.ts'
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
  remains: Remains
}

/** `others`: further objects with the same id. */
export async function observeIdentity(
  { caches, cluster }: Observer,
  object: OwnerObject,
  others: readonly OwnerObject[],
): Promise<Identified> {
  const { namespace = '', uid = '', labels: marks, deletionTimestamp } = object.metadata
  const id = marks?.[labels.id]
  const own = remainsOf(caches, namespace, { uid, id: undefined })
  const owned = [...own.claims, ...own.secrets, ...own.services]
  const identity = identityOf(object, {
    childrenSay: owned.map(child => child.metadata.labels?.[labels.database]),
    others,
    strays: id === undefined || others.length === 0 ? [] : await strayClaims(caches, cluster, { namespace, uid, id }),
  })
  const owner = identity.state === 'settled' ? identity.owner : undefined
  // An object that is deleted without ever having had a child deletes nothing that another one beside it may have had.
  const hadNone = deletionTimestamp !== undefined && owned.length === 0
  const isLeft = hadNone && others.some(other => other.metadata.namespace === namespace)
  if (owner === undefined || isLeft) return { identity, owner, remains: own }
  const remains = { ...remainsOf(caches, namespace, owner), pods: podsOf(caches, owner.id, namespace) }
  return { identity, owner, remains }
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
