/**
 * Converts the samples of a service's processes to the service's series. Each step is the sum over the processes that
 * were sampled in it. The samples of a replaced process are lost, so the series `pods` contains the number of pods in
 * each row.
 */
import type { ServiceType } from '../../crds/index.ts'
import { durationBounds, durationNames, type ownMeasures } from '../../server/samples.ts'
import { timestamp } from '../../values/time.ts'
import {
  type Cell,
  grownBy,
  known,
  meanOf,
  perSecond,
  type Sampled,
  type Series,
  type Step,
  stepsOf,
  sum,
} from './steps.ts'
import type { Window } from './window.ts'

/** One process of a pod. A pod of `mcp` has two processes. */
export type SampledProcess = { pod: string; samples: readonly Sampled[] }

const requestClasses = ['requests_2xx', 'requests_3xx', 'requests_4xx', 'requests_5xx'] as const
type Common = (typeof requestClasses)[number] | 'in_progress' | 'memory_bytes' | 'cpu_seconds'

/**
 * The value of a column: a gauge, a rate of several counters, a ratio of several counters, a quantile of durations, or
 * the number of pods.
 */
type Column<Measure> =
  | { is: Measure }
  | { growth: readonly Measure[] }
  | { share: Measure; of: readonly Measure[] }
  | { quantile: number }
  | 'pods'

type Catalogue<Measure> = Readonly<Record<string, Readonly<Record<string, Column<Measure>>>>>

const common: Catalogue<Common> = {
  requests: {
    total_per_second: { growth: requestClasses },
    '2xx_per_second': { growth: ['requests_2xx'] },
    '3xx_per_second': { growth: ['requests_3xx'] },
    '4xx_per_second': { growth: ['requests_4xx'] },
    '5xx_per_second': { growth: ['requests_5xx'] },
    error_ratio: { share: 'requests_5xx', of: requestClasses },
    in_progress: { is: 'in_progress' },
  },
  duration: { p50_seconds: { quantile: 0.5 }, p95_seconds: { quantile: 0.95 } },
  memory: { bytes: { is: 'memory_bytes' } },
  cpu: { cores: { growth: ['cpu_seconds'] } },
  pods: { sampled: 'pods' },
}

const own: { [Type in ServiceType]: Catalogue<(typeof ownMeasures)[Type][number]> } = {
  mcp: {
    sessions: { open: { is: 'sessions' } },
    tools: { calls_per_second: { growth: ['tool_calls'] }, failed_per_second: { growth: ['tool_failures'] } },
  },
  rest: {
    pool: {
      size: { is: 'pool_size' },
      in_use: { is: 'pool_in_use' },
      waiting: { is: 'pool_waiting' },
      timeouts_per_second: { growth: ['pool_timeouts'] },
    },
  },
  rag: {
    tokens: {
      embedding_per_second: { growth: ['tokens_embedding'] },
      rerank_per_second: { growth: ['tokens_rerank'] },
      prompt_per_second: { growth: ['tokens_prompt'] },
      completion_per_second: { growth: ['tokens_completion'] },
    },
    providers: { errors_per_second: { growth: ['provider_errors'] } },
    pool: { size: { is: 'pool_size' }, in_use: { is: 'pool_in_use' }, waiting: { is: 'pool_waiting' } },
  },
}

type InPod = { pod: string; step: Step }

/** Returns the sum of the known values; null if no value is known. */
function total(cells: readonly Cell[]): Cell {
  const values = known(cells)
  return values.length > 0 ? sum(values) : null
}

/** Assumes that durations in a bucket are spread evenly, and that durations above the last bound equal that bound. */
function quantileOf(quantile: number, steps: readonly InPod[]): Cell {
  const counts = durationNames.map(name => total(steps.map(({ step }) => grownBy(name, step))) ?? 0)
  let remaining = quantile * sum(counts)
  if (remaining === 0) return null
  for (const [index, count] of counts.entries()) {
    const [from = 0, to] = [durationBounds[index - 1], durationBounds[index]]
    if (to === undefined) return from
    if (count >= remaining) return from + ((to - from) * remaining) / count
    remaining -= count
  }
  return null
}

function cellOf(column: Column<string>, steps: readonly InPod[]): Cell {
  if (column === 'pods') return new Set(steps.map(({ pod }) => pod)).size
  if ('is' in column) return total(steps.map(({ step }) => meanOf(column.is, step)))
  if ('growth' in column)
    return total(steps.flatMap(({ step }) => column.growth.map(measure => perSecond(measure, step))))
  if ('quantile' in column) return quantileOf(column.quantile, steps)
  const grown = (measure: string) => total(steps.map(({ step }) => grownBy(measure, step))) ?? 0
  const all = sum(column.of.map(grown))
  return all > 0 ? grown(column.share) / all : null
}

/** Returns every series of a service with its columns. Without data, a series has no rows. */
export function serviceSeriesOf(type: ServiceType, processes: readonly SampledProcess[], window: Window): Series[] {
  const inPods = processes.flatMap(({ pod, samples }) => stepsOf(samples, window).map(step => ({ pod, step })))
  const byTime = [...Map.groupBy(inPods, ({ step }) => step.at)].sort(([left], [right]) => left - right)
  return Object.entries<Catalogue<string>[string]>({ ...common, ...own[type] }).map(([name, columns]) => {
    const rows = byTime.map(([at, steps]) => [
      timestamp(at),
      ...Object.values(columns).map(column => cellOf(column, steps)),
    ])
    return {
      name,
      columns: ['time', ...Object.keys(columns)],
      values: rows.filter(([, ...cells]) => cells.some(cell => cell !== null)),
    }
  })
}
