/** Maximal marginal relevance: what fits best first, and then what fits well and says something else than what has been taken. */

/**
 * The places of all candidates in the order to take them. `lambda` 1: by relevance alone; 0: by difference alone. Ties go to the earlier place.
 */
export function* byMarginalRelevance(
  relevances: readonly number[],
  lambda: number,
  similarity: (one: number, other: number) => number,
): Generator<number> {
  const left = new Set(relevances.keys())
  /** To the most similar one that has been taken. */
  const nearest = relevances.map(() => 0)
  while (left.size > 0) {
    let best: { readonly place: number; readonly score: number } | undefined
    for (const place of left) {
      const score = lambda * (relevances[place] ?? 0) - (1 - lambda) * (nearest[place] ?? 0)
      if (best === undefined || score > best.score) best = { place, score }
    }
    if (best === undefined) return
    left.delete(best.place)
    yield best.place
    for (const place of left) nearest[place] = Math.max(nearest[place] ?? 0, similarity(place, best.place))
  }
}
