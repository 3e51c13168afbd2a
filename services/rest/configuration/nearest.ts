/** Finds the word that was probably meant. */

/** Of the candidates the one with the fewest letters to change; the first of several. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  let best: { candidate: string; distance: number } | undefined
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate)
    if (best === undefined || distance < best.distance) best = { candidate, distance }
  }
  return best?.candidate
}

/** Levenshtein's: letters inserted, deleted or replaced. */
export function editDistance(from: string, to: string): number {
  let above = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [row, letter] of Array.from(from).entries()) {
    const current = [row + 1]
    for (const [column, other] of Array.from(to).entries()) {
      const replaced = (above[column] ?? 0) + (letter === other ? 0 : 1)
      current.push(Math.min(replaced, (above[column + 1] ?? 0) + 1, (current[column] ?? 0) + 1))
    }
    above = current
  }
  return above.at(-1) ?? 0
}
