/** The delay before a container restarts. Pure. */

export type BackoffLimits = {
  /** The first delay. Each further delay is twice as long. */
  initialMs: number
  maximumMs: number
  /** After a run of this length the delay is reset. */
  resetAfterMs: number
}

export const defaultBackoff: BackoffLimits = { initialMs: 10_000, maximumMs: 300_000, resetAfterMs: 600_000 }

/** More doublings would overflow a number. The maximum delay is reached long before. */
const mostDoublings = 30

/** The number of delays so far. Zero for a container that has not ended yet. */
type BackoffState = { waits: number }

/**
 * The delay after a run of `ranMs`. The first restart is immediate, the next waits `initialMs`, and each later delay
 * doubles up to the maximum.
 */
export function nextWait(
  state: BackoffState,
  ranMs: number,
  limits: BackoffLimits,
): { waitMs: number; state: BackoffState } {
  const waits = ranMs >= limits.resetAfterMs ? 0 : state.waits
  const waitMs =
    waits === 0 ? 0 : Math.min(limits.initialMs * 2 ** Math.min(waits - 1, mostDoublings), limits.maximumMs)
  return { waitMs, state: { waits: waits + 1 } }
}
