/**
 * An operator in one file. For each ConfigMap with the annotation `example.dev/copy-to: NAMESPACE` it keeps a copy in
 * that namespace, and deletes the copy with the original. `node controller/example/operator.ts` runs it on the cluster
 * of the current kubeconfig, or in a pod. Several instances may run, and one of them is the leader.
 */
import { hostname } from 'node:os'
import { type Logger, pino } from 'pino'
import {
  type Cluster,
  type ConfigMap,
  connectKubernetes,
  createEventRecorder,
  createInformer,
  fenced,
  keyOf,
  parseKey,
  runWithLeaderLease,
  startController,
} from '../index.ts'

const target = 'example.dev/copy-to'
const original = 'example.dev/copy-of'

const copyOf = ({ metadata, data }: ConfigMap, namespace: string) => ({
  apiVersion: 'v1' as const,
  kind: 'ConfigMap' as const,
  metadata: { name: metadata.name, namespace, annotations: { [original]: keyOf({ metadata }) } },
  data: data ?? {},
})

const isSame = (copy: ConfigMap, { metadata, data }: ReturnType<typeof copyOf>): boolean =>
  copy.metadata.annotations?.[original] === metadata.annotations[original] &&
  JSON.stringify(Object.entries(copy.data ?? {}).sort()) === JSON.stringify(Object.entries(data).sort())

/** Watches ConfigMaps until it is stopped. `lead` does the work while this process is the leader. */
export async function startExample(cluster: Cluster, identity: string, logger: Logger): Promise<() => Promise<void>> {
  const configMaps = createInformer(cluster, 'ConfigMap', {
    indexes: { original: ({ metadata }) => [metadata.annotations?.[original] ?? []].flat() },
    logger,
  })
  await configMaps.start()

  const lead = async (signal: AbortSignal, isLeader: () => boolean): Promise<void> => {
    const writer = fenced(cluster, signal, isLeader)
    const events = createEventRecorder({ cluster: writer, component: 'example', instance: identity, logger })
    const controller = startController({
      name: 'copies',
      workers: 2,
      keys: () => configMaps.list().map(keyOf),
      signal,
      logger,
      /** The key belongs to an original, which may not exist. Creates, changes or deletes its copy. */
      reconcile: async key => {
        const source = configMaps.get(parseKey(key))
        const namespace = source?.metadata.annotations?.[target]
        for (const { metadata } of configMaps.byIndex('original', key)) {
          if (metadata.namespace === namespace) continue
          await writer.delete('ConfigMap', metadata, metadata.uid === undefined ? {} : { uid: metadata.uid })
        }
        if (source === undefined || namespace === undefined) return undefined
        const draft = copyOf(source, namespace)
        const present = configMaps.get(draft.metadata)
        if (present !== undefined && isSame(present, draft)) return undefined
        if (present !== undefined && present.metadata.annotations?.[original] !== key) {
          events.record(source, 'Warning', 'NameTaken', `${namespace} has another ConfigMap of this name`)
          return { requeueAfterMs: 60_000 }
        }
        configMaps.writeThrough(await writer.apply('ConfigMap', draft))
        events.record(source, 'Normal', 'Copied', `copied to ${namespace}`)
        return undefined
      },
    })
    const unsubscribe = configMaps.onChange(({ object }) =>
      controller.enqueue(object.metadata.annotations?.[original] ?? keyOf(object)),
    )
    await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
    unsubscribe()
    await controller.stop()
    await events.stop()
  }

  const lease = { name: 'example-operator', namespace: 'default', identity }
  const election = runWithLeaderLease({ cluster, ...lease, onStarted: lead, logger })
  return async () => {
    await election.stop()
    await configMaps.stop()
  }
}

if (import.meta.main) {
  const logger = pino()
  const cluster = await connectKubernetes({ fieldManager: 'example-operator', logger })
  const stop = await startExample(cluster, hostname(), logger)
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void stop().then(() => cluster.close()))
}
