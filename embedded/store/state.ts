/**
 * The current objects in memory, with the indexes for reads and garbage collection. It contains only committed objects.
 * Only `put` and `remove` change it.
 */
import { type KindName, kindNames } from '../../cluster/kinds.ts'
import type { JsonObject } from './json.ts'
import { keyOf, metadataOf, type ObjectReference } from './objects.ts'

/** The objects of one kind in one namespace; `sorted` is rebuilt after a name is added or removed. */
type Bucket = { readonly byName: Map<string, JsonObject>; sorted: string[] | undefined }

export type State = {
  get(reference: ObjectReference): JsonObject | undefined
  /** Objects of a kind, sorted by namespace and name. Without `namespace`: the objects of all namespaces. */
  list(kind: KindName, namespace?: string): JsonObject[]
  /** Keys of the objects that name this uid as an owner. */
  dependents(ownerUid: string): ObjectReference[]
  inNamespace(namespace: string): ObjectReference[]
  all(): Iterable<[ObjectReference, JsonObject]>
  readonly size: number
  put(reference: ObjectReference, object: JsonObject): void
  remove(reference: ObjectReference): void
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

export function createState(): State {
  const kinds = new Map<KindName, Map<string, Bucket>>(kindNames.map(kind => [kind, new Map()]))
  const dependentsOf = new Map<string, Map<string, ObjectReference>>()
  let size = 0

  const namespacesOf = (kind: KindName): Map<string, Bucket> => kinds.get(kind) ?? new Map()
  const owners = (object: JsonObject | undefined): string[] =>
    object === undefined ? [] : (metadataOf(object).ownerReferences ?? []).map(owner => owner.uid)

  function listBucket(bucket: Bucket | undefined): JsonObject[] {
    if (bucket === undefined) return []
    bucket.sorted ??= [...bucket.byName.keys()].sort(compare)
    const objects: JsonObject[] = []
    for (const name of bucket.sorted) {
      const object = bucket.byName.get(name)
      if (object !== undefined) objects.push(object)
    }
    return objects
  }

  function index(reference: ObjectReference, before: JsonObject | undefined, after: JsonObject | undefined): void {
    const key = keyOf(reference)
    for (const uid of owners(before)) {
      const dependents = dependentsOf.get(uid)
      dependents?.delete(key)
      if (dependents?.size === 0) dependentsOf.delete(uid)
    }
    for (const uid of owners(after)) {
      const dependents = dependentsOf.get(uid) ?? new Map<string, ObjectReference>()
      dependentsOf.set(uid, dependents.set(key, reference))
    }
  }

  return {
    get: ({ kind, namespace, name }) => kinds.get(kind)?.get(namespace)?.byName.get(name),
    list(kind, namespace) {
      const namespaces = namespacesOf(kind)
      if (namespace !== undefined) return listBucket(namespaces.get(namespace))
      return [...namespaces.keys()].sort(compare).flatMap(each => listBucket(namespaces.get(each)))
    },
    dependents: uid => [...(dependentsOf.get(uid)?.values() ?? [])],
    inNamespace: namespace =>
      kindNames.flatMap(kind =>
        [...(namespacesOf(kind).get(namespace)?.byName.keys() ?? [])].map(name => ({ kind, namespace, name })),
      ),
    *all() {
      for (const [kind, namespaces] of kinds) {
        for (const [namespace, { byName }] of namespaces) {
          for (const [name, object] of byName) yield [{ kind, namespace, name }, object]
        }
      }
    },
    get size() {
      return size
    },
    put(reference, object) {
      const { kind, namespace, name } = reference
      const namespaces = namespacesOf(kind)
      const bucket = namespaces.get(namespace) ?? { byName: new Map(), sorted: undefined }
      namespaces.set(namespace, bucket)
      const before = bucket.byName.get(name)
      if (before === undefined) {
        bucket.sorted = undefined
        size++
      }
      bucket.byName.set(name, object)
      index(reference, before, object)
    },
    remove(reference) {
      const { kind, namespace, name } = reference
      const bucket = namespacesOf(kind).get(namespace)
      const before = bucket?.byName.get(name)
      if (bucket === undefined || before === undefined) return
      bucket.byName.delete(name)
      bucket.sorted = undefined
      if (bucket.byName.size === 0) namespacesOf(kind).delete(namespace)
      size--
      index(reference, before, undefined)
    },
  }
}
