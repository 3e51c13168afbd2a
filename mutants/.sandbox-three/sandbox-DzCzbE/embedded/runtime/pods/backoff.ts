/** How long a container that ended waits before it runs again. Pure. */
// @ts-nocheck


export type BackoffLimits = {
  /** The first wait; each further one is twice as long. */
  initialMs: number
  maximumMs: number
  /** A container that ran this long begins anew. */
  resetAfterMs: number
}

export const defaultBackoff: BackoffLimits = { initialMs: 10_000, maximumMs: 300_000, resetAfterMs: 600_000 }

/** More would leave the range of numbers; the longest wait is reached long before. */
const mostDoublings = 30

/** The waits so far: none for a container that has not ended yet. */
type BackoffState = { waits: number }

/** After a run of `ranMs`: the first restart is at once, the next after `initialMs`, then twice that, up to the most. */
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
