/** Writes and deletes an owner's children. Never changes or deletes another owner's object. */
import {
  type AnyObject,
  type Cluster,
  ClusterError,
  type Draft,
  isClusterError,
  type KindName,
  type Kinds,
} from '../../cluster/index.ts'
import { driftOf, withoutSurplus } from '../objects/foreign-fields.ts'
import type { Instance } from '../objects/instance.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { isAnothers, type Owner, ownerUidOf } from '../objects/ownership.ts'
import type { AppliedKind, ChildAction, PutBack } from './actions.ts'
import type { DriftHistory } from './drift-history.ts'

export type ChildExecutor = {
  /** The cluster for every write of a pass. */
  cluster: Cluster
  drifts: DriftHistory
}

/** `key`: the owner's key. */
export type ChildPass = {
  key: string
  observed: {
    instance: Instance
    owner: Owner | undefined
    children: Readonly<Record<string, AnyObject | undefined>>
    /** The children of services. */
    serviceChildren?: readonly AnyObject[]
  }
}

export async function performChild(executor: ChildExecutor, pass: ChildPass, action: ChildAction): Promise<void> {
  switch (action.do) {
    case 'apply':
      return applyChild(executor, pass, action.kind, action.draft, action.putBack)
    case 'delete': {
      const { kind, name, namespace, uid, resourceVersion } = action
      return executor.cluster.delete(kind, { namespace, name }, { uid, resourceVersion })
    }
    case 'label':
      return writeOwnership(executor, pass, action.kind, action.object)
  }
}

/** @throws ClusterError `Conflict` if the owner has no id yet */
export function identifiedOwner({ observed: { owner } }: ChildPass): Owner {
  if (owner !== undefined) return owner
  throw new ClusterError('Conflict', 'the database has no id yet')
}

/** Writes the owner's labels, unless the object belongs to another owner that exists. */
async function writeOwnership(
  { cluster }: ChildExecutor,
  { observed }: ChildPass,
  kind: KindName,
  object: AnyObject,
): Promise<void> {
  const { namespace, name } = object.metadata
  const found = await cluster.get(kind, { namespace, name })
  if (found === undefined || found.metadata.uid !== object.metadata.uid) return
  if (await isAnothers(cluster, observed.instance, found)) throw new NameTakenError(kind, found.metadata)
  // The caches have no complete objects, so this writes only metadata.
  await cluster.replace(kind, { ...found, metadata: object.metadata })
}

/**
 * Returns the object with the draft's name if it belongs to the owner. @throws NameTakenError if it belongs to another
 * owner
 */
export async function existingChild<K extends KindName>(
  { cluster }: ChildExecutor,
  { observed }: ChildPass,
  kind: K,
  { metadata: { namespace, name } }: Draft<K>,
): Promise<Kinds[K] | undefined> {
  const found = await cluster.get(kind, { namespace, name })
  if (found !== undefined && ownerUidOf(found) !== observed.instance.metadata.uid)
    throw new NameTakenError(kind, found.metadata)
  return found
}

/**
 * Creates an object that must never be overwritten. The object may already exist, because another pass created it or
 * because it lacks the labels by which the caches select it. Then this does not change its content, and restores its
 * labels.
 */
export async function createChild<K extends 'Secret' | 'PersistentVolumeClaim'>(
  executor: ChildExecutor,
  pass: ChildPass,
  kind: K,
  draft: Draft<K>,
): Promise<void> {
  try {
    await executor.cluster.create(kind, draft)
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
    const found = await existingChild(executor, pass, kind, draft)
    if (found === undefined) throw error
    await restoreLabels(executor, kind, found, draft)
  }
}

export async function restoreLabels<K extends 'Secret' | 'PersistentVolumeClaim'>(
  { cluster }: ChildExecutor,
  kind: K,
  found: Kinds[K],
  draft: Draft<K>,
): Promise<void> {
  const metadata = { ...found.metadata, labels: { ...found.metadata.labels, ...draft.metadata.labels } }
  await cluster.replace(kind, { ...found, metadata })
}

/** The observed child with this kind and name. */
function observedChild<K extends KindName>({ observed }: ChildPass, kind: K, name: string): Kinds[K] | undefined {
  const children = [...Object.values(observed.children), ...(observed.serviceChildren ?? [])]
  const found = children.find(child => child?.kind === kind && child.metadata.name === name)
  // The object has the requested kind.
  return found as Kinds[K] | undefined
}

/**
 * Applies a draft to the owner's observed child. Fails if the child has changed since the observation. Creates the
 * child if there is none. First removes fields that other managers added, because an apply does not remove them.
 */
export async function applyChild<K extends 'Secret' | AppliedKind>(
  executor: ChildExecutor,
  pass: ChildPass,
  kind: K,
  draft: Draft<K>,
  putBack?: PutBack,
): Promise<void> {
  const { cluster, drifts } = executor
  let child = observedChild(pass, kind, draft.metadata.name) ?? (await existingChild(executor, pass, kind, draft))
  if (child !== undefined && isImmutable(child)) {
    const { namespace, name, uid, resourceVersion } = child.metadata
    await cluster.delete(kind, { namespace, name }, { uid, resourceVersion })
    child = undefined
  }
  if (child !== undefined && putBack?.drifts.some(({ isSurplus }) => isSurplus))
    child = await cluster.replace(kind, withoutSurplus(child, putBack.drifts))
  const written = await cluster.apply(kind, child === undefined ? draft : asObserved(draft, child))
  drifts.wrote(pass.key, written)
  if (putBack !== undefined) drifts.putBack(pass.key, written, putBack.corrections, driftOf(written, draft))
}

/**
 * Any user can set `immutable` on a ConfigMap or a Secret, and no user can unset it. So the operator deletes the object
 * and creates it again.
 */
const isImmutable = (child: AnyObject): boolean => 'immutable' in child && child.immutable === true

const asObserved = <K extends KindName>(
  draft: Draft<K>,
  { metadata: { uid, resourceVersion } }: AnyObject,
): Draft<K> => ({
  ...draft,
  metadata: { ...draft.metadata, ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
})
