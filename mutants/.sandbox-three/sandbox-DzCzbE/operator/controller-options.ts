/** What every controller of the operator is started with. */
// @ts-nocheck

import type { Logger } from 'pino'
import type { Cluster } from '../cluster/index.ts'
import type { Metrics } from '../controller/index.ts'
import type { Caches } from './caches.ts'

export type ControllerOptions = {
  /** Every write goes through it. */
  cluster: Cluster
  caches: Caches
  metrics: Metrics
  logger: Logger
  now: () => number
  /** Ends its passes. */
  signal: AbortSignal
}
