/** A small controller runtime for TypeScript, without anything specific to Espalier. See README.md. */
export type { Cluster, ConfigMap } from '../cluster/index.ts'
export { createInformer, type Informer, keyOf, parseKey } from '../cluster/informer/index.ts'
export { connectKubernetes } from '../cluster/kubernetes/index.ts'
export {
  type Controller,
  type ControllerOptions,
  type Reconcile,
  type ReconcileResult,
  startController,
} from './controller.ts'
export { createEventRecorder, type EventRecorder, withoutSecrets } from './events.ts'
export { fenced } from './fence.ts'
export { instrumented } from './instrumented.ts'
export { type LeaderElection, type LeaderOptions, runWithLeaderLease } from './lease.ts'
export { createMetrics, type Metrics } from './metrics.ts'
export { lowPriority, normalPriority, WorkQueue } from './queue.ts'
