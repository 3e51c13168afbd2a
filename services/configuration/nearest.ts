/** Suggests the word that the user probably meant. */
import { editDistance } from './edit-distance.ts'

/**
 * The candidate with the fewest changed letters, at most a third of the word's length. If several have the fewest,
 * returns the first.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  let best: { candidate: string; distance: number } | undefined
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate)
    if (best === undefined || distance < best.distance) best = { candidate, distance }
  }
  return best !== undefined && best.distance <= word.length / 3 ? best.candidate : undefined
}
