/**
 * Decides which owners may replace their services' pods by pods with another image (ADR 0088). An upgrade of Espalier
 * is due for all databases at the same time, and each starts new pods beside the serving ones. Only the leader acts, so
 * it counts upgrades in memory. A new leader counts an upgrade that has begun as soon as it has observed the owner.
 */
export type UpgradeSlots = {
  /**
   * Requests to begin an upgrade that is due. @returns undefined if it may begin, otherwise the time of the next
   * request, in ms since the epoch
   */
  request(owner: string): number | undefined
  /** Reports that the new pods of an upgrade exist. */
  begun(owner: string): void
  /** Reports that no upgrade is due. */
  end(owner: string): void
}

/**
 * How long the new pods of an upgrade may take to start. It is long because pods of many databases start at the same
 * time.
 */
export const upgradeMs = 10 * 60_000
/** How soon an owner retries. Multiplied by the number of full batches before it. */
const retryMs = 5_000
/** After this time without a retry, an owner no longer counts as waiting. */
const forgottenMs = 5 * 60_000
const longestMs = 60_000

/** `most`: how many upgrades run at the same time. */
export function createUpgradeSlots({ most, now }: { most: number; now: () => number }): UpgradeSlots {
  /** By owner: when its slot began. The slot ends after the longest duration of an upgrade. */
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
