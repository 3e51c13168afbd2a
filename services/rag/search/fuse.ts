/**
 * Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009). A document's score is the sum of `weight / (60 +
 * rank)` over the lists that contain the document.
 */
import type { Hit } from './lists.ts'

const k = 60

type RankedList = {
  /** The list, best first. Each row occurs at most once. */
  readonly hits: readonly Hit[]
  readonly weight: number
}

export type Ranked = { readonly hit: Hit; readonly score: number }

/** Returns rows, best first. Rows with equal scores are ordered by key, so that answers are deterministic. */
export function fuse(lists: readonly RankedList[]): readonly Ranked[] {
  const fused = new Map<string, { readonly hit: Hit; score: number }>()
  for (const { hits, weight } of lists) {
    if (weight === 0) continue
    let rank = 0
    for (const hit of hits) {
      const score = weight / (k + ++rank)
      const before = fused.get(hit.key)
      if (before === undefined) fused.set(hit.key, { hit, score })
      else before.score += score
    }
  }
  return [...fused.values()].sort((one, other) => other.score - one.score || (one.hit.key < other.hit.key ? -1 : 1))
}
