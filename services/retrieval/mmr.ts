/**
 * Maximal marginal relevance: selects the most relevant candidate first, then relevant candidates that differ from the
 * selected candidates.
 */

/**
 * Yields the positions of all candidates in selection order. `lambda` 1: by relevance alone; 0: by difference alone. Of
 * equal candidates, the earlier position is first.
 */
export function* byMarginalRelevance(
  relevances: readonly number[],
  lambda: number,
  similarity: (one: number, other: number) => number,
): Generator<number> {
  const remaining = new Set(relevances.keys())
  /** The similarity of each candidate to the most similar selected candidate. */
  const nearest = relevances.map(() => 0)
  while (remaining.size > 0) {
    let best: { readonly index: number; readonly score: number } | undefined
    for (const index of remaining) {
      const score = lambda * (relevances[index] ?? 0) - (1 - lambda) * (nearest[index] ?? 0)
      if (best === undefined || score > best.score) best = { index, score }
    }
    if (best === undefined) return
    remaining.delete(best.index)
    yield best.index
    for (const index of remaining) nearest[index] = Math.max(nearest[index] ?? 0, similarity(index, best.index))
  }
}
