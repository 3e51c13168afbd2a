/** The figures of a cache, for export to Prometheus. */
import type { InformerState } from './informer.ts'

export type InformerFigure = {
  name: string
  help: string
  value: (state: InformerState) => number | undefined
}

/** Gauges: the current state. */
export const informerGauges: readonly InformerFigure[] = [
  { name: 'objects', help: 'Objects in the cache', value: state => state.objects },
  { name: 'synced', help: 'Whether the first list is read', value: state => Number(state.synced) },
  {
    name: 'failing',
    help: 'Whether listing or watching the cluster fails now',
    value: state => Number(state.failingSince !== undefined),
  },
  {
    name: 'last_sync_timestamp_seconds',
    help: 'Time of the last message from the cluster',
    value: state => state.lastSync && state.lastSync / 1000,
  },
]

/** Counters, since the start. */
export const informerCounters: readonly InformerFigure[] = [
  { name: 'lists_total', help: 'Complete lists read', value: state => state.lists },
  { name: 'events_total', help: 'Watch events read', value: state => state.events },
  { name: 'failures_total', help: 'Failed lists and watches', value: state => state.failures },
  {
    name: 'handler_errors_total',
    help: 'Exceptions of handlers, index functions and transforms',
    value: state => state.handlerErrors,
  },
]
