/**
 * Selects the durable backup that is restored as the daily test of a tenant's archive: the newest backup of the
 * database that was tested longest ago. So every database is tested in turn, and at most one backup for each tenant and
 * day is read from the bucket. Pure.
 */
import type { Backup } from '../../../crds/index.ts'
import { orderOf } from '../../objects/order.ts'

/** The interval between two tests of one tenant, in ms. */
const intervalMs = 24 * 3600_000
/** The retry interval while another backup of the tenant is tested first, in ms. */
const retryMs = 3600_000

/** `retryAt`: when to check again, in ms since the epoch. */
export type ProofSchedule = { isDue: true } | { isDue: false; retryAt: number }

const endedAt = ({ status }: Backup): number => Date.parse(status?.verificationResult?.endedAt ?? '') || 0
const latest = (backups: readonly Backup[]): number => Math.max(0, ...backups.map(endedAt))

/**
 * @param candidates all completed durable backups in the namespace, of databases that do not disable verification
 * @returns undefined for a backup that is not the newest of its database
 */
export function proofSchedule(backup: Backup, candidates: readonly Backup[], now: number): ProofSchedule | undefined {
  const byDatabase = Map.groupBy(candidates, ({ spec }) => spec.databaseId)
  const newest = [...byDatabase.values()].flatMap(own => own.toSorted(byOrder).slice(-1))
  const isNewest = newest.some(({ metadata }) => metadata.uid === backup.metadata.uid)
  if (!isNewest) return undefined
  const next = latest(candidates) + intervalMs
  if (now < next) return { isDue: false, retryAt: next }
  const isUnderWay = candidates.some(({ status }) => status?.verification === 'pending')
  const lastOf = ({ spec }: Backup): number => latest(byDatabase.get(spec.databaseId) ?? [])
  const [first] = newest.toSorted((one, other) => lastOf(one) - lastOf(other) || byOrder(one, other))
  if (!isUnderWay && first?.metadata.uid === backup.metadata.uid) return { isDue: true }
  return { isDue: false, retryAt: now + retryMs }
}

const byOrder = (one: Backup, other: Backup): number => (orderOf(one) < orderOf(other) ? -1 : 1)

/**
 * The longest time since a tenant's last successful test, in seconds. For a tenant without one, the time since its
 * oldest durable backup completed. 0 if no tenant has durable backups. `candidates`: the backups of all namespaces.
 */
export function oldestProofSeconds(candidates: readonly Backup[], now: number): number {
  const since = [...Map.groupBy(candidates, ({ metadata }) => metadata.namespace).values()].map(own => {
    const verified = own.filter(({ status }) => status?.verification === 'verified')
    if (verified.length > 0) return latest(verified)
    return Math.min(...own.map(({ status }) => Date.parse(status?.finishedAt ?? '') || now))
  })
  return Math.max(0, ...since.map(at => (now - at) / 1000))
}
