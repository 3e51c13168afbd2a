/** What every controller of the operator is started with. */
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
  /** Every write goes through it. */
  cluster: Cluster
  caches: Caches
  metrics: Metrics
  logger: Logger
  now: () => number
  /** Asked before anything is deleted by its age, or restarted in a maintenance window. */
  clock: ClockGuard
  /** Ends its passes. */
  signal: AbortSignal
}

/** And one that has Postgres run. */
export type PostgresControllerOptions = ControllerOptions & {
  keys: () => InstallationKeys
  /** How Postgres is reached, under an authority. */
  accessFor: (authority: NonNullable<InstallationKeys['authority']>) => PostgresAccess
  images: Partial<Record<PgVersion, string>>
  /** What every pod of a Postgres is given. */
  pods: PodSettings
  workers: number
  events: EventRecorder
}
