/**
 * Finds the known name that an unknown one was probably meant to be, as PostgREST does (by fuzzy sets of grams, Glen Chiacchieri's algorithm): names with letters in a row
 * in common are candidates, and of the fifty that have most of them in common the one with the least edits is told.
 */
import { editDistance } from '../../configuration/edit-distance.ts'

/** From 0, nothing in common, to 1, the same: the share of letters that can stay. */
export function similarity(one: string, other: string): number {
  const longest = Math.max(one.length, other.length)
  return longest === 0 ? 1 : 1 - editDistance(one, other) / longest
}

/** How often each run of so many letters and digits stands in a text, which begins and ends with a dash. */
function gramsOf(text: string, size: number): Map<string, number> {
  const whole = `-${text.replaceAll(/[^\p{L}\p{N}\s,]/gu, '')}-`
  const grams = new Map<string, number>()
  for (let at = 0; at + size <= whole.length; at++) {
    const gram = whole.slice(at, at + size)
    grams.set(gram, (grams.get(gram) ?? 0) + 1)
  }
  return grams
}

const magnitude = (grams: Map<string, number>): number =>
  Math.sqrt(grams.values().reduce((sum, count) => sum + count * count, 0))

/** The cosine of the angle between what two texts are made of; of the first the magnitude does not matter. */
function likeness(wanted: Map<string, number>, known: Map<string, number>): number {
  let common = 0
  for (const [gram, count] of wanted) common += count * (known.get(gram) ?? 0)
  return common === 0 ? 0 : common / magnitude(known)
}

const gramSizes = [3, 2] as const
const mostCompared = 50

/** An error has to be quick, and its sender chooses what is looked for: how long it may be, and among how many letters. */
const longestText = 1_000
const maximumLetters = 500_000

/** The most similar of the names, if any is at least as similar as `threshold`; capitals do not count. */
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
