/** Keys of objects as text, as in kubectl and the work queue: `namespace/name`, or only `name`. */
import type { ObjectMeta } from '../../crds/index.ts'
import type { ObjectKey } from '../port.ts'

/** `namespace/name`, or `name` for a cluster-scoped object. */
export function keyText(key: ObjectKey): string {
  return key.namespace ? `${key.namespace}/${key.name}` : key.name
}

/** The key of an object, as text. */
export function keyOf(object: { metadata: ObjectMeta }): string {
  return keyText(object.metadata)
}

/** The inverse of `keyText`. */
export function parseKey(text: string): ObjectKey {
  const slash = text.indexOf('/')
  return slash < 0 ? { name: text } : { namespace: text.slice(0, slash), name: text.slice(slash + 1) }
}
