/** Helpers for objects of any kind: their key, their metadata, and their name in messages. */
import type { KindName } from '../../cluster/kinds.ts'
import type { LabelSelector, Selection } from '../../cluster/port.ts'
import type { ObjectMeta } from '../../crds/metadata.ts'
import { isEnded, type Task } from '../../crds/task.ts'
import { isObject, type JsonObject } from './json.ts'

/** The key of an object; `namespace` is empty for cluster-scoped kinds. */
export type ObjectReference = { readonly kind: KindName; readonly namespace: string; readonly name: string }

/** The key as one text. Names contain no slash. */
export const keyOf = ({ kind, namespace, name }: ObjectReference): string => `${kind}/${namespace}/${name}`

/** An object's metadata, typed. The store validated the metadata when it wrote the object. */
export const metadataOf = (object: JsonObject): ObjectMeta => object.metadata as unknown as ObjectMeta

/** Returns the object with these metadata fields set; undefined removes a field. */
export function withMetadata(
  object: JsonObject,
  changes: { [field in keyof ObjectMeta]?: ObjectMeta[field] | undefined },
): JsonObject {
  const metadata = isObject(object.metadata) ? { ...object.metadata } : {}
  for (const [field, value] of Object.entries(changes)) {
    if (value === undefined) delete metadata[field]
    // ObjectMeta is JSON, but its type has no index signature.
    else (metadata as { [field: string]: unknown })[field] = value
  }
  return { ...object, metadata } as JsonObject
}

export const referenceOf = (kind: KindName, object: JsonObject): ObjectReference => {
  const { namespace = '', name } = metadataOf(object)
  return { kind, namespace, name }
}

/** Whether an object has the selected labels and, if `open` is set, has not ended. */
export const selects = ({ labels, open }: Pick<Selection, 'labels' | 'open'>, object: JsonObject): boolean =>
  hasLabels(labels, object) && !(open && isEnded(object as Pick<Task, 'status'>))

/** Whether labels match a selector. Each label must have the given value; `true` means that the label must exist. */
function hasLabels(selector: LabelSelector | undefined, object: JsonObject): boolean {
  if (selector === undefined) return true
  const { labels } = metadataOf(object)
  for (const label in selector) {
    const wanted = selector[label]
    const value = labels !== undefined && Object.hasOwn(labels, label) ? labels[label] : undefined
    if (wanted === undefined) continue
    if (wanted === true ? value === undefined : value !== wanted) return false
  }
  return true
}
