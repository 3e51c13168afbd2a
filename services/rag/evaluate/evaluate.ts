/**
 * Runs queries that have judgements, and reports how well each variant of the search finds the relevant documents. The
 * caller provides the search.
 */
import { type Interval, interval } from './bootstrap.ts'
import type { JudgedQuery } from './collection.ts'
import { hasRelevant, type Metrics, metricNames, metricsOf } from './metrics.ts'

/** Finds documents, best first. Documents have the names of the judgements. */
export type Arm = { readonly name: string; readonly find: (query: string) => Promise<readonly string[]> }

type MetricName = keyof Metrics
type Intervals = Readonly<Record<MetricName, Interval>>

type Evaluation = {
  readonly queries: number
  /** The number of queries without a relevant document. No ranking can answer them, so they do not count. */
  readonly unanswerable: number
  readonly arms: readonly { readonly name: string; readonly metrics: Intervals; readonly failures: readonly string[] }[]
  /** The difference `arm` minus `than`, per query. */
  readonly differences: readonly { readonly arm: string; readonly than: string; readonly metrics: Intervals }[]
}

const names = Object.keys(metricNames) as readonly MetricName[]
const nothing: Metrics = metricsOf([], new Map())

const intervals = (values: readonly Metrics[]): Intervals => ({
  ndcg10: interval(values.map(({ ndcg10 }) => ndcg10)),
  recall10: interval(values.map(({ recall10 }) => recall10)),
  recall100: interval(values.map(({ recall100 }) => recall100)),
  mrr10: interval(values.map(({ mrr10 }) => mrr10)),
})

const less = (one: Metrics, other: Metrics = nothing): Metrics => ({
  ndcg10: one.ndcg10 - other.ndcg10,
  recall10: one.recall10 - other.recall10,
  recall100: one.recall100 - other.recall100,
  mrr10: one.mrr10 - other.mrr10,
})

type Options = {
  /** The number of concurrent queries. */
  readonly parallel: number
  readonly onProgress: (done: number, all: number) => void
  readonly signal: AbortSignal
}

/** A failed query counts as a query without results. Each variant is compared with all variants before it. */
export async function evaluate(
  queries: readonly JudgedQuery[],
  arms: readonly Arm[],
  options: Options,
): Promise<Evaluation> {
  const counted = queries.filter(({ judgements }) => hasRelevant(judgements))
  const all = counted.length * arms.length
  let done = 0
  const results: { name: string; values: readonly Metrics[]; failures: readonly string[] }[] = []
  for (const { name, find } of arms) {
    const failures: string[] = []
    const values = await eachOf(counted, options.parallel, async ({ id, text, judgements }) => {
      options.signal.throwIfAborted()
      const found = await find(text).catch((error: unknown) => {
        options.signal.throwIfAborted()
        failures.push(`${id}: ${error instanceof Error ? error.message : String(error)}`)
        return []
      })
      options.onProgress(++done, all)
      return metricsOf(found, judgements)
    })
    results.push({ name, values, failures })
  }
  return {
    queries: counted.length,
    unanswerable: queries.length - counted.length,
    arms: results.map(({ name, values, failures }) => ({ name, metrics: intervals(values), failures })),
    differences: results.flatMap(({ name, values }, index) =>
      results.slice(0, index).map(than => ({
        arm: name,
        than: than.name,
        metrics: intervals(values.map((value, at) => less(value, than.values[at]))),
      })),
    ),
  }
}

/** Returns results in order, with limited concurrency. */
async function eachOf<T, R>(
  items: readonly T[],
  parallel: number,
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = []
  const queue = items.entries()
  await Promise.all(
    Array.from({ length: parallel }, async () => {
      for (const [index, item] of queue) results[index] = await work(item)
    }),
  )
  return results
}

const width = 22
const cell = ({ mean, low, high }: Interval): string => `${mean.toFixed(3)} [${low.toFixed(3)}, ${high.toFixed(3)}]`

/** Formats the evaluation as a table for people. */
export function evaluationText({ queries, unanswerable, arms, differences }: Evaluation): string {
  const labelWidth = Math.max(
    ...arms.map(({ name }) => name.length),
    ...differences.map(({ arm, than }) => arm.length + than.length + 3),
  )
  const row = (label: string, cells: readonly string[]) =>
    [label.padEnd(labelWidth), ...cells.map(text => text.padEnd(width))].join('  ').trimEnd()
  const rowOf = (label: string, metrics: Intervals) =>
    row(
      label,
      names.map(name => cell(metrics[name])),
    )
  const without = unanswerable === 0 ? '' : `; ${unanswerable} more have no relevant document and are not counted`
  return [
    `${queries} queries${without}. Means, with 95 % intervals (bootstrap over queries).`,
    '',
    row(
      '',
      names.map(name => metricNames[name]),
    ),
    ...arms.map(({ name, metrics }) => rowOf(name, metrics)),
    ...(differences.length === 0 ? [] : ['', 'Differences per query:']),
    ...differences.map(({ arm, than, metrics }) => rowOf(`${arm} - ${than}`, metrics)),
    ...arms.flatMap(({ name, failures }) =>
      failures.length === 0
        ? []
        : ['', `${name}: ${failures.length} queries failed and count 0; the first: ${failures[0]}`],
    ),
  ].join('\n')
}
