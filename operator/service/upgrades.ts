/**
 * Which owners may replace the pods of their services by pods of another image (ADR 0088). An upgrade of Espalier is
 * due for all databases at the same moment, and each starts new pods beside the serving ones. Only the leader acts, so
 * it counts in memory. For a new leader, upgrades that have begun count as soon as it has observed their owners.
 */
export type UpgradeSlots = {
  /**
   * For an upgrade that is due. @returns undefined if it may begin, otherwise when to ask again, in ms since the epoch
   */
  request(owner: string): number | undefined
  /** The new pods of an upgrade exist. */
  begun(owner: string): void
  /** No upgrade is due. */
  end(owner: string): void
}

/** How long the new pods of an upgrade may take to start, since those of many databases start at once. */
export const upgradeMs = 10 * 60_000
/** How soon an owner retries, for each time that the full number of running upgrades is ahead of it. */
const retryMs = 5_000
/** An owner that has not retried for this long no longer waits. */
const forgottenMs = 5 * 60_000
const longestMs = 60_000

/** `most`: how many run at once. */
export function createUpgradeSlots({ most, now }: { most: number; now: () => number }): UpgradeSlots {
  /** By owner: when its slot began. After the longest duration of an upgrade it no longer counts. */
  const running = new Map<string, number>()
  /** By owner: when it last requested a slot. */
  const waiting = new Map<string, number>()
  const forget = (known: Map<string, number>, ms: number): void => {
    for (const [owner, at] of known) if (now() - at >= ms) known.delete(owner)
  }
  return {
    request(owner) {
      forget(running, upgradeMs)
      forget(waiting, forgottenMs)
      if (running.has(owner)) return undefined
      if (running.size >= most) {
        waiting.set(owner, now())
        return now() + Math.min(longestMs, retryMs * Math.ceil(waiting.size / most))
      }
      waiting.delete(owner)
      running.set(owner, now())
      return undefined
    },
    begun(owner) {
      waiting.delete(owner)
      if (!running.has(owner)) running.set(owner, now())
    },
    end(owner) {
      waiting.delete(owner)
      running.delete(owner)
    },
  }
}
