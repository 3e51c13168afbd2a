/**
 * The confidence of a mean: percentile intervals by resampling the queries (Sakai, SIGIR 2006). Equal values result in
 * equal intervals.
 */

export type Interval = { readonly mean: number; readonly low: number; readonly high: number }

const resamples = 2_000
/** The share outside the interval, on each side. */
const tail = 0.025

/** Numbers from 0 to 1. The same seed results in the same numbers (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const meanOf = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

/** Returns the mean with its 95 % interval. For differences per query, this is the paired interval. */
export function interval(values: readonly number[]): Interval {
  const random = randomNumbers(1)
  const means = Array.from({ length: resamples }, () => {
    let sum = 0
    for (let remaining = values.length; remaining > 0; remaining--)
      sum += values[Math.floor(random() * values.length)] ?? 0
    return values.length === 0 ? 0 : sum / values.length
  }).sort((one, other) => one - other)
  return {
    mean: meanOf(values),
    low: means[Math.floor(tail * resamples)] ?? 0,
    high: means[Math.ceil((1 - tail) * resamples) - 1] ?? 0,
  }
}
