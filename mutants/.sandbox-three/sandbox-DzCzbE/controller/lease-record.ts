/**
 * What stands in a Lease, and how long a record of another must be respected. Nobody's clock is compared with another's:
 * the times in a record are for people; only that it changed counts, and when that was seen by our own clock.
 */
// @ts-nocheck

import type { Lease } from '../cluster/index.ts'
import { microTime } from '../values/time.ts'

export const holderOf = (lease: Lease | undefined): string => lease?.spec?.holderIdentity ?? ''

/** The record of a holder who takes or renews the lease now. */
export function heldRecord(previous: Lease | undefined, identity: string, leaseMs: number, now: number): Lease['spec'] {
  const renewed = holderOf(previous) === identity
  return {
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(leaseMs / 1000),
    acquireTime: renewed ? (previous?.spec?.acquireTime ?? microTime(now)) : microTime(now),
    renewTime: microTime(now),
    leaseTransitions: previous ? (previous.spec?.leaseTransitions ?? 0) + (renewed ? 0 : 1) : 0,
  }
}

/** The record of a lease given back: anyone may take it at once. */
export function releasedRecord(held: Lease, now: number): Lease['spec'] {
  return { ...held.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(now) }
}

/** Remembers the last record seen of another holder, and since when it has not changed. */
export class ObservedHolder {
  #observed: { record: string; at: number; durationMs: number } | undefined

  /**
   * Whether the record seen at `now` still has to be respected. A Lease that somebody deleted does not end the term of
   * the holder last seen in it.
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
