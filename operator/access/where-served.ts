/**
 * Delays passes on an object if the operator has no rights in its namespace, or has not cached the Secrets there yet.
 */
import type { ObjectKey } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import type { Reconcile } from '../../controller/index.ts'
import type { Caches } from '../caches.ts'
import { bindingNames } from './bindings.ts'

/** A binding takes effect within moments. Also the interval of the checks of a namespace without permission. */
const bindingMs = 200
const unallowedMs = 2_000

/** `report`: called for an object whose namespace may not contain databases. */
export const whereServed =
  <T extends object>(
    caches: Pick<Caches, 'isServed' | 'bindings' | 'namespaces' | 'otherNamespaces'>,
    objects: { get(key: ObjectKey): T | undefined },
    reconcile: Reconcile,
    report: (object: T) => Promise<void> = async () => {},
  ): Reconcile =>
  async (key, signal) => {
    const { namespace = '', name } = parseKey(key)
    const object = objects.get({ namespace, name })
    if (object === undefined || caches.isServed(namespace)) return reconcile(key, signal)
    const isAllowed = [caches.namespaces, caches.otherNamespaces].some(cache => cache.get({ name: namespace }))
    if (isAllowed || caches.bindings.get({ namespace, name: bindingNames.operator }) !== undefined)
      return { requeueAfterMs: bindingMs }
    await report(object)
    return { requeueAfterMs: unallowedMs }
  }
