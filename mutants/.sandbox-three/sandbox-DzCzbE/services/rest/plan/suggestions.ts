/** Finds the known name that an unknown one was probably meant to be. */
// @ts-nocheck

import { editDistance } from '../../configuration/edit-distance.ts'

/** From 0, nothing in common, to 1, the same: the share of letters that can stay. Capitals do not count. */
export function similarity(one: string, other: string): number {
  // Some letters are longer in lower case.
  const [a, b] = [one.toLowerCase(), other.toLowerCase()]
  const longest = Math.max(a.length, b.length)
  return longest === 0 ? 1 : 1 - editDistance(a, b) / longest
}

/** How much is compared at most: an error has to be quick, and its sender chooses what is looked for. */
const maximumWork = 2_000_000

/** The most similar of the names, if any is at least as similar as `threshold`. */
export function suggestion(text: string, names: Iterable<string>, threshold: number): string | undefined {
  let best: { name: string; score: number } | undefined
  let work = 0
  for (const name of names) {
    const longest = Math.max(text.length, name.length)
    if (Math.min(text.length, name.length) < threshold * longest) continue
    work += text.length * name.length
    if (work > maximumWork) return undefined
    const score = similarity(text, name)
    if (score >= threshold && (best === undefined || score > best.score)) best = { name, score }
  }
  return best?.name
}
