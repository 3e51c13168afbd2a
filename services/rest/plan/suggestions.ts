/** Finds the known name that an unknown one was probably meant to be. */

/** How many letters have to be changed, put in or left out to get from one text to the other (Levenshtein). */
function distance(one: string, other: string): number {
  let previous = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    for (let column = 1; column <= other.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (one[row - 1] === other[column - 1] ? 0 : 1)
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[other.length] ?? 0
}

/** From 0, nothing in common, to 1, the same: the share of letters that can stay. Capitals do not count. */
export function similarity(one: string, other: string): number {
  // Some letters are longer in lower case.
  const [a, b] = [one.toLowerCase(), other.toLowerCase()]
  const longest = Math.max(a.length, b.length)
  return longest === 0 ? 1 : 1 - distance(a, b) / longest
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
