/** What a cache can tell of itself, for whoever shows it to Prometheus. */
// @ts-nocheck

import type { InformerState } from './informer.ts'

export type InformerFigure = {
  name: string
  help: string
  value: (state: InformerState) => number | undefined
}

/** How things are now. */
export const informerGauges: readonly InformerFigure[] = [
  { name: 'objects', help: 'Objects in the cache', value: state => state.objects },
  { name: 'synced', help: 'Whether the first list is in', value: state => Number(state.synced) },
  {
    name: 'failing',
    help: 'Whether following the cluster fails now',
    value: state => Number(state.failingSince !== undefined),
  },
  {
    name: 'last_sync_timestamp_seconds',
    help: 'When the cluster was last heard',
    value: state => state.lastSync && state.lastSync / 1000,
  },
]

/** What has been counted since it began. */
export const informerCounters: readonly InformerFigure[] = [
  { name: 'lists_total', help: 'Complete lists taken in', value: state => state.lists },
  { name: 'events_total', help: 'Watch events taken in', value: state => state.events },
  { name: 'failures_total', help: 'Failed lists and watches', value: state => state.failures },
  {
    name: 'handler_errors_total',
    help: 'Exceptions of handlers, index functions and transforms',
    value: state => state.handlerErrors,
  },
]
