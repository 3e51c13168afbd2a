/**
 * Starts the restart of an owner in the region's maintenance window, if the Region's status lists a slot for the owner.
 */
import { keyOf } from '../../cluster/informer/index.ts'
import { shortened } from '../../values/text.ts'
import { timestamp } from '../../values/time.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import type { Maintenance } from '../objects/instance.ts'
import { type Candidate, takenTurn } from '../objects/maintenance-turn.ts'

/** The restart that starts with this status. Undefined if the owner has no slot, or may not use it. */
export function startedByTurn(
  { caches, clock, now }: Pick<PostgresControllerOptions, 'caches' | 'clock' | 'now'>,
  candidate: Candidate,
): Maintenance | undefined {
  const { metadata, spec } = candidate
  const region = caches.regions.get({ name: spec.region })
  const turns = region?.status?.turns ?? []
  const maxConcurrent = region?.spec.maintenance?.maxConcurrent
  if (maxConcurrent === undefined || !turns.some(({ uid }) => uid === metadata.uid)) return undefined
  const others = [caches.databases, caches.branches]
    .flatMap((cache): readonly Candidate[] => cache.byIndex('rollout', spec.region))
    .filter(other => other.metadata.uid !== metadata.uid)
  const isClockTrusted = clock.distrust() === undefined
  const turn = takenTurn(candidate, turns, others, { maxConcurrent, now: now(), isClockTrusted })
  return turn === undefined ? undefined : { restart: turn.window, startedAt: timestamp(now()) }
}

export function reportStarted(
  { events, logger }: Pick<PostgresControllerOptions, 'events' | 'logger'>,
  candidate: Candidate,
  { restart }: Maintenance,
): void {
  logger.info({ kind: candidate.kind, key: keyOf(candidate), window: restart }, 'restarts in the maintenance window')
  const reasons = (candidate.status?.pendingRestart ?? []).map(({ message }) => message).join('; ')
  const message = shortened(`restarted in the region's maintenance window: ${reasons}`, 1000)
  events.record(candidate, 'Normal', 'MaintenanceRestart', message)
}
