/**
 * Suggests the known name that the client probably meant, as PostgREST does (fuzzy sets of n-grams, Glen Chiacchieri's
 * algorithm). Candidates share consecutive letters with the unknown name. Of the fifty candidates that share most,
 * returns the one with the fewest edits.
 */
import { editDistance } from '../../configuration/edit-distance.ts'

/** The share of unchanged letters, from 0 (nothing in common) to 1 (equal). */
export function similarity(one: string, other: string): number {
  const longest = Math.max(one.length, other.length)
  return longest === 0 ? 1 : 1 - editDistance(one, other) / longest
}

/** Counts each n-gram of letters and digits in a text. A dash marks the text's start and end. */
function gramsOf(text: string, size: number): Map<string, number> {
  const padded = `-${text.replaceAll(/[^\p{L}\p{N}\s,]/gu, '')}-`
  const grams = new Map<string, number>()
  for (let at = 0; at + size <= padded.length; at++) {
    const gram = padded.slice(at, at + size)
    grams.set(gram, (grams.get(gram) ?? 0) + 1)
  }
  return grams
}

const magnitude = (grams: Map<string, number>): number =>
  Math.sqrt(grams.values().reduce((sum, count) => sum + count * count, 0))

/** The cosine of the angle between two texts' n-gram counts. The first text's magnitude does not matter. */
function likeness(wanted: Map<string, number>, known: Map<string, number>): number {
  let common = 0
  for (const [gram, count] of wanted) common += count * (known.get(gram) ?? 0)
  return common === 0 ? 0 : common / magnitude(known)
}

const gramSizes = [3, 2] as const
const mostCompared = 50

/**
 * The maximum length of a name, and the maximum letters to search. An error must be fast, and the client chooses the
 * name.
 */
const longestText = 1_000
const maximumLetters = 500_000

/** The most similar name, if its similarity is at least `threshold`. Case-insensitive. */
export function suggestion(text: string, names: Iterable<string>, threshold: number): string | undefined {
  const wanted = text.toLowerCase()
  const known = new Map<string, string>()
  let letters = 0
  for (const name of names) {
    letters += name.length
    if (wanted.length > longestText || letters > maximumLetters) return undefined
    const key = name.toLowerCase()
    if (!known.has(key)) known.set(key, name)
  }
  const same = known.get(wanted)
  if (same !== undefined) return same
  for (const size of gramSizes) {
    const grams = gramsOf(wanted, size)
    const [best] = [...known]
      .map(([key, name]) => ({ key, name, likeness: likeness(grams, gramsOf(key, size)) }))
      .filter(one => one.likeness > 0)
      .sort((one, other) => other.likeness - one.likeness)
      .slice(0, mostCompared)
      .map(({ key, name }) => ({ name, score: similarity(wanted, key) }))
      .sort((one, other) => other.score - one.score)
    if (best !== undefined && best.score >= threshold) return best.name
  }
  return undefined
}
