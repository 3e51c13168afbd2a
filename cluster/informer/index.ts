/** A cache of one kind of object that follows the cluster, and related parts. */
export { backoffMs, type Clock, sleep, systemClock } from './clock.ts'
export { type InformerFigure, informerCounters, informerGauges } from './figures.ts'
export {
  createInformer,
  type Informer,
  type InformerOptions,
  type InformerState,
  withoutManagedFields,
} from './informer.ts'
export { keyOf, keyText, parseKey } from './key.ts'
export { createNamespacedInformer, type NamespacedInformer } from './namespaced.ts'
export { compareVersions } from './version.ts'
