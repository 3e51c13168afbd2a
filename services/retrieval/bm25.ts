/** BM25: scores texts for a question by shared words. Rare words count more, and long texts count less. */

const saturation = 1.5
const lengthWeight = 0.75

/** Returns a score for each text, given as its words. A text without a shared word has the score 0. */
export function bm25(query: readonly string[], texts: readonly (readonly string[])[]): readonly number[] {
  const wanted = new Set(query)
  const counts = texts.map(words => countsOf(words, wanted))
  const averageLength = texts.reduce((sum, words) => sum + words.length, 0) / Math.max(1, texts.length)
  const weights = new Map(
    [...wanted].map(word => {
      const holding = counts.filter(one => one.has(word)).length
      return [word, Math.log(1 + (texts.length - holding + 0.5) / (holding + 0.5))]
    }),
  )
  return texts.map((words, index) => {
    const length = 1 - lengthWeight + (lengthWeight * words.length) / Math.max(1, averageLength)
    let score = 0
    for (const [word, count] of counts[index] ?? []) {
      score += ((weights.get(word) ?? 0) * count * (saturation + 1)) / (count + saturation * length)
    }
    return score
  })
}

function countsOf(words: readonly string[], wanted: ReadonlySet<string>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const word of words) if (wanted.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}
