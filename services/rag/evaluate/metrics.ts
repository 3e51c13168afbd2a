/** Ranking metrics from relevance judgements. Gains are linear, as in trec_eval. */

/**
 * Scores of one query's documents, by id. A document with a score above 0 is relevant; higher is better. A document
 * with a score below 0 does not count at all. Documents without a score are not relevant.
 */
export type Judgements = ReadonlyMap<string, number>

export type Metrics = {
  readonly ndcg10: number
  readonly recall10: number
  readonly recall100: number
  readonly mrr10: number
}

export const metricNames = {
  ndcg10: 'nDCG@10',
  recall10: 'recall@10',
  recall100: 'recall@100',
  mrr10: 'MRR@10',
} as const satisfies Record<keyof Metrics, string>

/** Returns each document once, at its best position. Omits documents that do not count. */
const counted = (documents: readonly string[], judgements: Judgements): readonly string[] =>
  [...new Set(documents)].filter(id => (judgements.get(id) ?? 0) >= 0)

export const hasRelevant = (judgements: Judgements): boolean => [...judgements.values()].some(score => score > 0)

const gainOf = (judgements: Judgements, id: string): number => Math.max(0, judgements.get(id) ?? 0)

const discounted = (gains: readonly number[]): number =>
  gains.reduce((sum, gain, index) => sum + gain / Math.log2(index + 2), 0)

function ndcg(ranking: readonly string[], judgements: Judgements, depth: number): number {
  const best = [...judgements.values()].filter(score => score > 0).toSorted((one, other) => other - one)
  const ideal = discounted(best.slice(0, depth))
  return ideal === 0 ? 0 : discounted(ranking.slice(0, depth).map(id => gainOf(judgements, id))) / ideal
}

function recall(ranking: readonly string[], judgements: Judgements, depth: number): number {
  const relevant = [...judgements.values()].filter(score => score > 0).length
  const found = ranking.slice(0, depth).filter(id => gainOf(judgements, id) > 0).length
  return relevant === 0 ? 0 : found / relevant
}

function reciprocalRank(ranking: readonly string[], judgements: Judgements, depth: number): number {
  const first = ranking.slice(0, depth).findIndex(id => gainOf(judgements, id) > 0)
  return first === -1 ? 0 : 1 / (first + 1)
}

/** `documents`: in ranked order, best first. */
export function metricsOf(documents: readonly string[], judgements: Judgements): Metrics {
  const ranking = counted(documents, judgements)
  return {
    ndcg10: ndcg(ranking, judgements, 10),
    recall10: recall(ranking, judgements, 10),
    recall100: recall(ranking, judgements, 100),
    mrr10: reciprocalRank(ranking, judgements, 10),
  }
}
