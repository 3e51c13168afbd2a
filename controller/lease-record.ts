/**
 * The content of a Lease record, and how long another process's record must be respected. The times in a record are
 * only for users: clocks of different processes are never compared. Only a change of the record counts, at the time
 * when this process's clock observed it.
 */
import type { Lease } from '../cluster/index.ts'
import { microTime } from '../values/time.ts'

export const holderOf = (lease: Lease | undefined): string => lease?.spec?.holderIdentity ?? ''

/** The record of a holder that now acquires or renews the lease. */
export function acquiredRecord(
  previous: Lease | undefined,
  identity: string,
  leaseMs: number,
  now: number,
): Lease['spec'] {
  const renewed = holderOf(previous) === identity
  return {
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(leaseMs / 1000),
    acquireTime: renewed ? (previous?.spec?.acquireTime ?? microTime(now)) : microTime(now),
    renewTime: microTime(now),
    leaseTransitions: previous ? (previous.spec?.leaseTransitions ?? 0) + (renewed ? 0 : 1) : 0,
  }
}

/** The record of a released lease: any process may acquire it at once. */
export function releasedRecord(lease: Lease, now: number): Lease['spec'] {
  return { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(now) }
}

/** Stores the last observed record of another holder, and since when it has not changed. */
export class ObservedHolder {
  #observed: { record: string; at: number; durationMs: number } | undefined

  /**
   * Whether the record observed at `now` must still be respected. If the Lease is deleted, the term of its last
   * observed holder does not end.
   */
  respects(lease: Lease | undefined, leaseMs: number, now: number): boolean {
    if (lease) {
      if (holderOf(lease) === '') return false
      const { holderIdentity, renewTime, acquireTime, leaseTransitions, leaseDurationSeconds = 0 } = lease.spec ?? {}
      const record = JSON.stringify([holderIdentity, renewTime, acquireTime, leaseTransitions])
      if (this.#observed?.record !== record)
        this.#observed = { record, at: now, durationMs: Math.max(leaseMs, leaseDurationSeconds * 1000) }
    }
    return this.#observed !== undefined && now < this.#observed.at + this.#observed.durationMs
  }

  forget(): void {
    this.#observed = undefined
  }
}
