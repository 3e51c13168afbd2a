/** The options of every controller of the operator. */
import type { Logger } from 'pino'
import type { Cluster } from '../cluster/index.ts'
import type { EventRecorder, Metrics } from '../controller/index.ts'
import type { PgVersion } from '../crds/index.ts'
import type { Caches } from './caches.ts'
import type { ClockGuard } from './clock/guard.ts'
import type { InstallationKeys } from './keys.ts'
import type { PostgresAccess } from './member/postgres/access.ts'
import type { PodSettings } from './pod-settings.ts'

export type ControllerOptions = {
  /** The cluster for every write. */
  cluster: Cluster
  caches: Caches
  metrics: Metrics
  logger: Logger
  now: () => number
  /** Called before the operator deletes anything by age, or restarts a database in a maintenance window. */
  clock: ClockGuard
  /** Aborts the controller's passes. */
  signal: AbortSignal
}

/** Options of a controller whose objects run Postgres. */
export type PostgresControllerOptions = ControllerOptions & {
  keys: () => InstallationKeys
  /** Access to Postgres under an authority. */
  accessFor: (authority: NonNullable<InstallationKeys['authority']>) => PostgresAccess
  images: Partial<Record<PgVersion, string>>
  /** The settings of every Postgres pod. */
  pods: PodSettings
  workers: number
  events: EventRecorder
}
