/** Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a document's score is the sum of `weight / (60 + rank)` over the lists that have it. Pure. */

const k = 60

type RankedList = {
  /** Keys of documents, the best first; each at most once. */
  readonly keys: readonly string[]
  readonly weight: number
}

type Fused = { readonly key: string; readonly score: number }

/** The best first. Documents of equal score are in the order of their keys, so that an answer does not depend on chance. */
export function fuse(lists: readonly RankedList[]): readonly Fused[] {
  const scores = new Map<string, number>()
  for (const { keys, weight } of lists) {
    if (weight === 0) continue
    for (const [index, key] of keys.entries()) {
      scores.set(key, (scores.get(key) ?? 0) + weight / (k + index + 1))
    }
  }
  return [...scores]
    .map(([key, score]) => ({ key, score }))
    .toSorted((one, other) => other.score - one.score || (one.key < other.key ? -1 : 1))
}
