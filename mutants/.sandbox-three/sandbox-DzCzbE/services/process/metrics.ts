/**
 * The metrics of several processes as one, for Prometheus. It promises that what counts up never goes back, which would be taken for a restart of all: what a process
 * has counted still counts when it has ended, as far as it has told.
 */
// @ts-nocheck

import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client'

/** Of one process, as its registry gives them. */
export type ProcessMetrics = MetricObjectWithValues<MetricValue<string>>[]

/** prom-client declares numbers for what are names when it runs. */
const isCumulative = ({ type }: ProcessMetrics[number]): boolean => String(type) !== 'gauge'

const aggregate = (all: readonly ProcessMetrics[]) => AggregatorRegistry.aggregate([...all])

/** What ended processes have counted, with one more of them. */
export const retainCounters = (retained: ProcessMetrics, ended: ProcessMetrics): Promise<ProcessMetrics> =>
  aggregate([retained, ended.filter(isCumulative)]).getMetricsAsJSON()

/** All as one, in Prometheus's text format. */
export const aggregateText = (all: readonly ProcessMetrics[]): Promise<string> => aggregate(all).metrics()
