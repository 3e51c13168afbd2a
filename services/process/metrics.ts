/**
 * Aggregates the Prometheus metrics of several processes. Counters never decrease, which would look like a restart:
 * counts of ended processes are retained as last reported.
 */
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client'

/** Of one process, as its registry returns them. */
export type ProcessMetrics = MetricObjectWithValues<MetricValue<string>>[]

/** prom-client's types declare numbers, but at run time these are names. */
const isCumulative = ({ type }: ProcessMetrics[number]): boolean => String(type) !== 'gauge'

const aggregate = (all: readonly ProcessMetrics[]) => AggregatorRegistry.aggregate([...all])

/** Counters of ended processes, after adding one more process. */
export const retainCounters = (retained: ProcessMetrics, ended: ProcessMetrics): Promise<ProcessMetrics> =>
  aggregate([retained, ended.filter(isCumulative)]).getMetricsAsJSON()

/** All metrics in Prometheus's text format. */
export const aggregateText = (all: readonly ProcessMetrics[]): Promise<string> => aggregate(all).metrics()
