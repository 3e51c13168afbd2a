/**
 * Creates and repairs the RoleBindings of operator and API in every namespace that may contain databases. If a
 * namespace is being deleted, the operator's binding stays until no object of Espalier is left in it.
 */
import { keyOf } from '../../cluster/informer/index.ts'
import { startController } from '../../controller/index.ts'
import { teardownFinalizer } from '../../crds/index.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { isUpToDate } from '../objects/up-to-date.ts'
import { bindingDrafts, bindingNames, mayContainDatabases, withoutFinalizer } from './bindings.ts'

/** The interval of the checks of a namespace that is being deleted. */
const leavingMs = 2_000

export function startAccessController(options: ControllerOptions & { workers: number }): { stop(): Promise<void> } {
  const { caches, workers, logger, metrics, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  const { bindings } = caches
  const namespaces = [caches.namespaces, caches.otherNamespaces]

  const reconcile = async (name: string) => {
    const namespace = namespaces.map(cache => cache.get({ name })).find(found => found !== undefined)
    if (namespace === undefined || namespace.metadata.deletionTimestamp !== undefined) return release(name)
    if (!mayContainDatabases(namespace)) return undefined
    for (const draft of bindingDrafts(name)) {
      const present = bindings.get(draft.metadata)
      // A user deleted the binding. The operator creates it again when it no longer exists.
      if (present?.metadata.deletionTimestamp !== undefined)
        await cluster.replace('RoleBinding', withoutFinalizer(present))
      else if (!isUpToDate(present, draft)) await cluster.apply('RoleBinding', draft)
    }
    return undefined
  }

  /**
   * Whether no object in a namespace has the operator's finalizer. The operator cannot remove finalizers without its
   * binding.
   */
  const isEmpty = (namespace: string): boolean =>
    [caches.databases, caches.branches, caches.backups, caches.restores, caches.claims].every(
      cache => cache.list({ namespace }).length === 0,
    )

  /**
   * Removes the binding's finalizer, if the namespace is being deleted or has lost its label, and no object of Espalier
   * is left there.
   */
  const release = async (namespace: string) => {
    const binding = bindings.get({ namespace, name: bindingNames.operator })
    if (binding?.metadata.finalizers?.includes(teardownFinalizer) !== true) return undefined
    if (!isEmpty(namespace)) return { requeueAfterMs: leavingMs }
    await cluster.replace('RoleBinding', withoutFinalizer(binding))
    return undefined
  }

  const controller = startController({
    name: 'access',
    workers,
    reconcile,
    keys: () => namespaces.flatMap(cache => cache.list().map(keyOf)),
    signal,
    logger,
    metrics,
  })
  const unsubscribe = [
    ...namespaces.map(cache => cache.onChange(({ object }) => controller.enqueue(object.metadata.name))),
    bindings.onChange(({ object }) => controller.enqueue(object.metadata.namespace ?? '')),
  ]
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
      await controller.stop()
    },
  }
}
