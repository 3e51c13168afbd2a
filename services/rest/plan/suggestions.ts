/** Finds the known name that an unknown one was probably meant to be. */

const gramsOf = (text: string): Map<string, number> => {
  const padded = `-${text.toLowerCase()}-`
  const grams = new Map<string, number>()
  for (let at = 0; at + 2 <= padded.length; at++) {
    for (const gram of [padded.slice(at, at + 2), padded.slice(at, at + 3)]) grams.set(gram, (grams.get(gram) ?? 0) + 1)
  }
  return grams
}

const norm = (grams: ReadonlyMap<string, number>): number => Math.hypot(...grams.values())

/** From 0, nothing in common, to 1: the cosine of their letter pairs and triples. */
export function similarity(one: string, other: string): number {
  const [a, b] = [gramsOf(one), gramsOf(other)]
  let common = 0
  for (const [gram, count] of a) common += count * (b.get(gram) ?? 0)
  return common / (norm(a) * norm(b))
}

/** Below it, a name is rather another than a misspelt one. */
const threshold = 0.75
/** Of more names than this, none is looked for: an error has to be quick. */
const maximumNames = 500
const maximumLength = 100

/** The most similar of the names, if any is similar at all. */
export function suggestion(text: string, names: Iterable<string>): string | undefined {
  if (text.length > maximumLength) return undefined
  let best: { name: string; score: number } | undefined
  let seen = 0
  for (const name of names) {
    if (++seen > maximumNames) return undefined
    const score = similarity(text, name)
    if (score >= threshold && (best === undefined || score > best.score)) best = { name, score }
  }
  return best?.name
}
