/**
 * Aggregates the Prometheus metrics of several processes. Counters never decrease, because a decrease would look like a
 * restart. So the last counts of ended processes are kept.
 */
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client'

/** The metrics of one process, as its registry returns them. */
export type ProcessMetrics = MetricObjectWithValues<MetricValue<string>>[]

/** prom-client's types declare numbers, but at run time these are names. */
const isCumulative = ({ type }: ProcessMetrics[number]): boolean => String(type) !== 'gauge'

const aggregate = (all: readonly ProcessMetrics[]) => AggregatorRegistry.aggregate([...all])

/** The counters of ended processes, including one more process. */
export const retainCounters = (retained: ProcessMetrics, ended: ProcessMetrics): Promise<ProcessMetrics> =>
  aggregate([retained, ended.filter(isCumulative)]).getMetricsAsJSON()

/** All metrics in Prometheus's text format. */
export const aggregateText = (all: readonly ProcessMetrics[]): Promise<string> => aggregate(all).metrics()
