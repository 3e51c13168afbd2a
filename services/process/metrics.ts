/**
 * The figures of several processes as one, for Prometheus. It promises that what counts up never goes back, which would be taken for a restart of all: what a process
 * has counted still counts when it has ended, as far as it has told.
 */
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client'

export type Figures = MetricObjectWithValues<MetricValue<string>>[]

/** prom-client declares numbers for what are names when it runs. */
const isCounted = ({ type }: Figures[number]): boolean => String(type) !== 'gauge'

const together = (all: readonly Figures[]) => AggregatorRegistry.aggregate([...all])

/** What an ended process leaves, added to what those before it have left. */
export const bequeath = (left: Figures, figures: Figures): Promise<Figures> =>
  together([left, figures.filter(isCounted)]).getMetricsAsJSON()

/** In Prometheus's text format. */
export const figuresText = (all: readonly Figures[]): Promise<string> => together(all).metrics()
