/** What every controller of the operator stands on. */
export {
  type Controller,
  type ControllerOptions,
  type Reconcile,
  type ReconcileResult,
  startController,
} from './controller.ts'
export { createEventRecorder, type EventRecorder } from './events.ts'
export { fenced } from './fence.ts'
export { instrumented } from './instrumented.ts'
export { type LeaderElection, type LeaderOptions, runWithLeaderLease } from './lease.ts'
export { createMetrics, type Metrics } from './metrics.ts'
export { lowPriority, normalPriority, WorkQueue } from './queue.ts'
