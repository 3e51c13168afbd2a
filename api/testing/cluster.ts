/** A cluster in memory, as small as the API's tests need one. */
import { type AnyObject, type Cluster, ClusterError, type KindName, type WatchEvent } from '../../cluster/index.ts'
import { declarations } from '../../crds/index.ts'

type Stored = AnyObject & { spec?: unknown; status?: unknown }

export type MemoryCluster = Cluster & {
  writes: number
  intercept?: ((operation: string, kind: KindName) => void) | undefined
}

export function openMemoryCluster(): MemoryCluster {
  const kinds = new Map<KindName, Map<string, Stored>>()
  const watchers = new Set<(kind: KindName, event: WatchEvent<never>) => void>()
  let version = 0
  const of = (kind: KindName) => kinds.get(kind) ?? kinds.set(kind, new Map()).get(kind) ?? new Map()
  const keyOf = (key: { namespace?: string | undefined; name: string }) => `${key.namespace ?? ''}/${key.name}`
  const emit = (kind: KindName, type: 'ADDED' | 'MODIFIED' | 'DELETED', object: Stored) => {
    for (const watcher of [...watchers]) watcher(kind, { type, object } as unknown as WatchEvent<never>)
  }
  const put = (kind: KindName, object: Stored, type: 'ADDED' | 'MODIFIED') => {
    version++
    cluster.writes++
    const stored = structuredClone({
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(version) },
    }) as Stored
    of(kind).set(keyOf(object.metadata), stored)
    emit(kind, type, stored)
    return stored
  }
  const withDefaults = (kind: KindName, object: Stored): Stored => {
    const declaration = declarations[kind as keyof typeof declarations]
    return declaration ? ({ ...object, spec: declaration.spec.parse(object.spec) } as Stored) : object
  }
  const matching = (labels: Record<string, string | true> | undefined, object: Stored) =>
    Object.entries(labels ?? {}).every(([name, value]) =>
      value === true ? object.metadata.labels?.[name] !== undefined : object.metadata.labels?.[name] === value,
    )
  const cluster = {
    writes: 0,
    async get(kind: KindName, key: { namespace?: string; name: string }) {
      cluster.intercept?.('get', kind)
      return of(kind).get(keyOf(key))
    },
    async list(kind: KindName, options: { namespace?: string; labels?: Record<string, string | true> } = {}) {
      cluster.intercept?.('list', kind)
      const items = [...of(kind).values()].filter(
        object =>
          (options.namespace === undefined || object.metadata.namespace === options.namespace) &&
          matching(options.labels, object),
      )
      return { items, resourceVersion: String(version) }
    },
    async *watch(
      kind: KindName,
      options: { resourceVersion: string; signal: AbortSignal; labels?: Record<string, string | true> },
    ) {
      const queue: WatchEvent<never>[] = []
      let wake = () => {}
      const watcher = (changed: KindName, event: WatchEvent<never>) => {
        if (changed !== kind) return
        if ('object' in event && !matching(options.labels, event.object)) return
        queue.push(event)
        wake()
      }
      watchers.add(watcher)
      options.signal.addEventListener('abort', () => wake(), { once: true })
      for (const object of of(kind).values()) {
        if (Number(object.metadata.resourceVersion) > Number(options.resourceVersion))
          queue.push({ type: 'MODIFIED', object } as never)
      }
      try {
        while (!options.signal.aborted) {
          const next = queue.shift()
          if (next) yield next
          else
            await new Promise<void>(resolve => {
              wake = resolve
            })
        }
      } finally {
        watchers.delete(watcher)
      }
    },
    async create(kind: KindName, draft: Stored) {
      cluster.intercept?.('create', kind)
      if (of(kind).has(keyOf(draft.metadata))) throw new ClusterError('AlreadyExists', 'exists')
      const metadata = {
        ...draft.metadata,
        uid: crypto.randomUUID(),
        generation: 1,
        creationTimestamp: draft.metadata.creationTimestamp ?? new Date().toISOString().replace(/\.\d+/, ''),
      }
      return put(kind, withDefaults(kind, { ...draft, metadata } as Stored), 'ADDED')
    },
    async replace(kind: KindName, object: Stored) {
      cluster.intercept?.('replace', kind)
      const current = of(kind).get(keyOf(object.metadata))
      if (!current) throw new ClusterError('NotFound', 'not found')
      if (current.metadata.resourceVersion !== object.metadata.resourceVersion)
        throw new ClusterError('Conflict', 'conflict')
      const next = withDefaults(kind, { ...object, status: current.status } as Stored)
      if (next.metadata.deletionTimestamp && !next.metadata.finalizers?.length) return remove(kind, next)
      return put(kind, next, 'MODIFIED')
    },
    async replaceStatus(kind: KindName, object: Stored) {
      const current = of(kind).get(keyOf(object.metadata))
      if (!current) throw new ClusterError('NotFound', 'not found')
      if (current.metadata.resourceVersion !== object.metadata.resourceVersion)
        throw new ClusterError('Conflict', 'conflict')
      return put(kind, { ...current, status: object.status } as Stored, 'MODIFIED')
    },
    async delete(
      kind: KindName,
      key: { namespace?: string; name: string },
      options: { uid?: string; resourceVersion?: string } = {},
    ) {
      cluster.intercept?.('delete', kind)
      const current = of(kind).get(keyOf(key))
      if (!current) return
      if (options.uid && options.uid !== current.metadata.uid) throw new ClusterError('Conflict', 'uid')
      if (options.resourceVersion && options.resourceVersion !== current.metadata.resourceVersion)
        throw new ClusterError('Conflict', 'version')
      if (current.metadata.finalizers?.length) {
        if (!current.metadata.deletionTimestamp)
          put(
            kind,
            { ...current, metadata: { ...current.metadata, deletionTimestamp: new Date().toISOString() } } as Stored,
            'MODIFIED',
          )
      } else remove(kind, current)
    },
    async logs() {
      return []
    },
  } as unknown as MemoryCluster
  function remove(kind: KindName, object: Stored) {
    version++
    of(kind).delete(keyOf(object.metadata))
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } } as Stored
    emit(kind, 'DELETED', last)
    return last
  }
  return cluster
}
