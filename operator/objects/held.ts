/** Objects that the operator holds until all that it made for them is gone: what it puts on them, and how it lets go. */
import { labels, type ObjectMeta, teardownFinalizer } from '../../crds/index.ts'

type Held = { metadata: ObjectMeta }

/** With the finalizer; but nothing can hold back an object that is on its way out already. */
export function held<T extends Held>(object: T): T {
  const { metadata } = object
  const finalizers = new Set(metadata.finalizers)
  if (metadata.deletionTimestamp === undefined) finalizers.add(teardownFinalizer)
  return { ...object, metadata: { ...metadata, finalizers: [...finalizers] } }
}

/** With the API's id as well. */
export function identified<T extends Held>(object: T, id: string): T {
  const marked = held(object)
  return { ...marked, metadata: { ...marked.metadata, labels: { ...marked.metadata.labels, [labels.id]: id } } }
}

export function letGo<T extends Held>(object: T): T {
  const finalizers = object.metadata.finalizers?.filter(finalizer => finalizer !== teardownFinalizer) ?? []
  return { ...object, metadata: { ...object.metadata, finalizers } }
}
