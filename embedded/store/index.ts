/**
 * The object store for one machine: a Kubernetes API server for the `Cluster` port, with the features that Espalier
 * needs. With a directory, every acknowledged write survives any crash. Without a directory, the store is in memory
 * only.
 */
import type { Logger } from 'pino'
import { ClusterError } from '../../cluster/errors.ts'
import type { KindName, Kinds } from '../../cluster/kinds.ts'
import type { Cluster, ListResult, LogOptions, ObjectKey, WatchEvent } from '../../cluster/port.ts'
import type { CustomResourceDefinition } from '../../crds/definition.ts'
import { type Admission, claimGrowth } from './admission.ts'
import { createCommitter } from './commit.ts'
import { type Disk, openDisk } from './disk.ts'
import { createCollector } from './garbage.ts'
import { internEntries } from './intern.ts'
import { freeze, isObject, type JsonObject, share } from './json.ts'
import type { OpenFile } from './log-file.ts'
import { metadataOf, withMetadata } from './objects.ts'
import { createQuotas } from './quotas.ts'
import { type Resource, resourcesOf } from './resource.ts'
import { createState, type State } from './state.ts'
import * as operations from './store.ts'
import { createChangeNotifier, type Signal } from './watch.ts'

export type { Admission } from './admission.ts'
export { StoreError } from './errors.ts'
export { protections } from './protected.ts'

export type StoreOptions = {
  /** Absent: memory only. */
  directory?: string | undefined
  definitions: CustomResourceDefinition[]
  logger: Logger
  /** ms since the epoch */
  now?: (() => number) | undefined
  /** Bookmark interval of a quiet watch, in ms; default 10,000. */
  bookmarkMs?: number | undefined
  /** The store keeps at least this many changes of each kind for watches and pages; default 4,096. */
  historyCapacity?: number | undefined
  /** How often the store deletes expired Events, in ms; default one minute. */
  eventSweepMs?: number | undefined
  /** Journal size that starts a compaction, in bytes; default 16 MiB. */
  compactAfterBytes?: number | undefined
  /** Whether volumes of a storage class can grow; default: all. An undefined class is the default class. */
  growsIn?: ((storageClass: string | undefined) => boolean) | undefined
  /** Further checks that can refuse a write, like admission policies on Kubernetes. */
  admissions?: readonly Admission[] | undefined
  /** Disk space reserved for a full disk, in bytes; default none. */
  reserveBytes?: number | undefined
  /** Opens files; for tests of failing disks. */
  openFile?: OpenFile | undefined
}

/** Lines of a pod's container, oldest first, each as `<RFC 3339 time> <line>`. */
type LogSource = (pod: ObjectKey, options?: LogOptions) => Promise<string[]>

export type Store = {
  /** Returns a cluster whose writes use this field manager. */
  connect(fieldManager: string): Cluster
  setLogSource(source: LogSource): void
  /** Whether the disk is full and the store writes into its reserve. If true, the store accepts mainly deletions. */
  isDiskFull(): boolean
  /** Ends all watches, waits for running writes, and closes the directory. */
  close(): Promise<void>
}

/** @throws StoreError `locked`, `corrupt`, `newer`, `inaccessible`, `definition` */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { logger, now = Date.now, bookmarkMs = 10_000, historyCapacity = 4096, eventSweepMs = 60_000 } = options
  const resources = resourcesOf(options.definitions)
  const state = createState()
  const source = { version: () => committer.version, objects: () => [...state.all()].map(([, object]) => object) }
  const { disk, version } = await openFiles(options, state, source)
  adopt(state, resources)

  const changeNotifiers = operations.changeNotifiersFor(createChangeNotifier)
  const committer = createCommitter({
    state,
    version,
    disk,
    historyCapacity,
    logger,
    onCommit: changes => {
      for (const kind of new Set(changes.map(change => change.reference.kind)))
        changeNotifiers.get(kind)?.notify('change')
      collector.notice(changes)
    },
  })
  const admissions = [claimGrowth(options.growsIn ?? (() => true)), ...(options.admissions ?? [])]
  const parts: operations.Parts = {
    state,
    committer,
    resources,
    changeNotifiers,
    now,
    admissions,
    quotas: createQuotas(state),
  }
  const collector = createCollector(state, operations.collectorActions(parts), logger)

  let logSource: LogSource | undefined
  const ring = (signal: Signal): void => {
    for (const changeNotifier of changeNotifiers.values()) changeNotifier.notify(signal)
  }
  const bookmarks = setInterval(() => ring('bookmark'), bookmarkMs).unref()
  const sweeps = setInterval(() => {
    operations
      .expireEvents(parts)
      .catch(error => logger.warn({ err: error }, 'cannot delete expired Events; will retry'))
  }, eventSweepMs).unref()

  let closing: Promise<void> | undefined
  async function shutDown(): Promise<void> {
    clearInterval(bookmarks)
    clearInterval(sweeps)
    await collector.close()
    await committer.close()
    ring('close')
    await disk?.close()
  }

  const close = (): Promise<void> => {
    closing ??= shutDown()
    return closing
  }

  try {
    await bootstrap(parts)
  } catch (error) {
    await close()
    throw error
  }
  return {
    connect: fieldManager => connect(parts, fieldManager, () => logSource),
    setLogSource: source => {
      logSource = source
    },
    isDiskFull: () => disk !== undefined && disk.pressure() !== 'none',
    close,
  }
}

async function openFiles(
  options: StoreOptions,
  state: State,
  source: { version(): number; objects(): JsonObject[] },
): Promise<{ disk: Disk | undefined; version: number }> {
  const { directory, logger, compactAfterBytes, openFile, reserveBytes } = options
  // An empty store has version 1, because 0 means "any version" to a watch.
  if (directory === undefined) return { disk: undefined, version: 1 }
  return openDisk({ directory, sink: state, source, logger, compactAfterBytes, openFile, reserveBytes })
}

/** Adds new defaults of this version's definitions to stored objects. */
function adopt(state: State, resources: ReadonlyMap<KindName, Resource>): void {
  for (const [reference, object] of [...state.all()]) {
    const { managedFields } = metadataOf(object)
    const compact = managedFields ? withMetadata(object, { managedFields: internEntries(managedFields) }) : object
    // If the defaults change nothing, the state gets `compact` itself, which uses the least memory.
    const completed = share(compact, resources.get(reference.kind)?.complete(compact) ?? compact)
    if (isObject(completed)) state.put(reference, freeze(completed))
  }
}

/** Objects that every cluster has from the start. */
async function bootstrap(parts: operations.Parts): Promise<void> {
  if (parts.state.get({ kind: 'Namespace', namespace: '', name: 'default' }) !== undefined) return
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }
  await operations.create(parts, 'espalier-store', 'Namespace', namespace)
}

function connect(parts: operations.Parts, manager: string, logSource: () => LogSource | undefined): Cluster {
  // The store validated each object before it wrote it, so the JSON is an object of its kind.
  const typed = <K extends KindName>(object: JsonObject): Kinds[K] => object as unknown as Kinds[K]
  return {
    async get<K extends KindName>(kind: K, key: ObjectKey) {
      const object = parts.state.get(operations.locate(operations.resourceOf(parts, kind), key))
      return object === undefined ? undefined : typed<K>(object)
    },
    async list<K extends KindName>(kind: K, options = {}) {
      return operations.list(parts, kind, options) as unknown as ListResult<Kinds[K]>
    },
    watch<K extends KindName>(kind: K, options: Parameters<Cluster['watch']>[1]) {
      return operations.watchKind(parts, kind, options) as unknown as AsyncIterable<WatchEvent<Kinds[K]>>
    },
    async create<K extends KindName>(kind: K, object: unknown) {
      return typed<K>(await operations.create(parts, manager, kind, object))
    },
    async replace<K extends KindName>(kind: K, object: unknown) {
      return typed<K>(await operations.replace(parts, manager, kind, object, 'main'))
    },
    async apply<K extends KindName>(kind: K, object: unknown) {
      return typed<K>(await operations.apply(parts, manager, kind, object))
    },
    async replaceStatus<K extends KindName>(kind: K, object: unknown) {
      return typed<K>(await operations.replace(parts, manager, kind, object, 'status'))
    },
    delete: (kind, key, options = {}) => operations.remove(parts, manager, kind, key, options),
    async logs(pod, options) {
      const resource = operations.resourceOf(parts, 'Pod')
      if (parts.state.get(operations.locate(resource, pod)) === undefined) {
        throw new ClusterError('NotFound', `pods "${pod.name}" not found`)
      }
      const source = logSource()
      if (source === undefined) throw new ClusterError('Unavailable', 'no component runs pods in this installation')
      return source(pod, options)
    },
  }
}
