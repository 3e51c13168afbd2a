/**
 * Suggests the known name that an unknown one was probably meant to be, as PostgREST does (fuzzy sets of n-grams, Glen
 * Chiacchieri's algorithm): candidates share consecutive letters; of the fifty that share most, the one with the fewest
 * edits is returned.
 */
import { editDistance } from '../../configuration/edit-distance.ts'

/** From 0, nothing in common, to 1, equal: the share of unchanged letters. */
export function similarity(one: string, other: string): number {
  const longest = Math.max(one.length, other.length)
  return longest === 0 ? 1 : 1 - editDistance(one, other) / longest
}

/** Counts of each n-gram of letters and digits in a text, with a dash at its start and end. */
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

/** Cosine of the angle between the n-gram counts of two texts; the magnitude of the first does not matter. */
function likeness(wanted: Map<string, number>, known: Map<string, number>): number {
  let common = 0
  for (const [gram, count] of wanted) common += count * (known.get(gram) ?? 0)
  return common === 0 ? 0 : common / magnitude(known)
}

const gramSizes = [3, 2] as const
const mostCompared = 50

/** An error must be fast, and its sender chooses the name: maximum length, and maximum letters to search. */
const longestText = 1_000
const maximumLetters = 500_000

/** The most similar name with at least the similarity `threshold`, case-insensitive. */
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
