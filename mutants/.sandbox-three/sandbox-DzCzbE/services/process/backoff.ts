/** Backoff: how long to wait before trying again what has failed. Longer each time, so that what is away is not pressed, and half a minute at most, so that it is found when it is back. */
// @ts-nocheck


const shortestMs = 1_000
const longestMs = 32_000

/** After a wait of so many milliseconds that did not help; 0 where there has been none. */
export const nextBackoff = (lastMs: number): number => Math.min(Math.max(shortestMs, 2 * lastMs), longestMs)
