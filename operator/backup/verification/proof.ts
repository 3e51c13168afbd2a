/**
 * Which durable backup is restored as the proof of its tenant: one a day, of the database whose last proof is the
 * oldest. So each database is covered in order, and an installation with many databases reads at most one backup per
 * tenant and day from its bucket. Pure.
 */
import type { Backup } from '../../../crds/index.ts'
import { orderOf } from '../../objects/order.ts'

/** How long after a proof the next one of the same tenant begins, in ms. */
const intervalMs = 24 * 3600_000
/** How soon a backup that has to wait for another one's proof is considered again, in ms. */
const retryMs = 3600_000

/** `retryAt`: when to check again, in ms since the epoch. */
export type ProofSchedule = { isDue: true } | { isDue: false; retryAt: number }

const endedAt = ({ status }: Backup): number => Date.parse(status?.verificationResult?.endedAt ?? '') || 0
const latest = (backups: readonly Backup[]): number => Math.max(0, ...backups.map(endedAt))

/**
 * @param candidates all completed durable backups of the namespace whose databases have them verified
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
 * The longest time without a successful proof among tenants, in seconds: since the last one, or since the oldest
 * durable backup was completed. 0 if no tenant has durable backups. `candidates`: of all namespaces.
 */
export function oldestProofSeconds(candidates: readonly Backup[], now: number): number {
  const since = [...Map.groupBy(candidates, ({ metadata }) => metadata.namespace).values()].map(own => {
    const sound = own.filter(({ status }) => status?.verification === 'verified')
    if (sound.length > 0) return latest(sound)
    return Math.min(...own.map(({ status }) => Date.parse(status?.finishedAt ?? '') || now))
  })
  return Math.max(0, ...since.map(at => (now - at) / 1000))
}
