/**
 * The operator's finalizer on an object. It delays the object's deletion until the operator has deleted the objects
 * that it created for it.
 */
import { labels, type ObjectMeta, teardownFinalizer } from '../../crds/index.ts'

type WithMetadata = { metadata: ObjectMeta }

/** Adds the finalizer. Kubernetes does not allow that on an object that is being deleted. */
export function withFinalizer<T extends WithMetadata>(object: T): T {
  const { metadata } = object
  const finalizers = new Set(metadata.finalizers)
  if (metadata.deletionTimestamp === undefined) finalizers.add(teardownFinalizer)
  return { ...object, metadata: { ...metadata, finalizers: [...finalizers] } }
}

/** Adds the finalizer and the id label. */
export function identified<T extends WithMetadata>(object: T, id: string): T {
  const finalized = withFinalizer(object)
  return {
    ...finalized,
    metadata: { ...finalized.metadata, labels: { ...finalized.metadata.labels, [labels.id]: id } },
  }
}

export function withoutFinalizer<T extends WithMetadata>(object: T): T {
  const finalizers = object.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? []
  return { ...object, metadata: { ...object.metadata, finalizers } }
}
