/**
 * The time at which an object was last updated, as a client sees it. It is the latest of: the object's creation, its
 * last write through the API, the last visible change that the operator observed, the start of its running operation,
 * its conditions' last transitions, and its deletion. For a database, also the creation and deletion of branches, and
 * visible changes of its account or region. An annotation records the last write through the API, because managedFields
 * belong to the cluster and are dropped from caches.
 */
import { annotations, type Condition } from '../../crds/index.ts'
import { type Created, createdTime } from './created-at.ts'

type Observed = {
  metadata: Created['metadata'] & { annotations?: Record<string, string>; deletionTimestamp?: string }
  status?: {
    conditions?: Condition[] | undefined
    updatedAt?: string | undefined
    operation?: { startedAt: string } | undefined
  }
}

export function updatedAt({ metadata, status }: Observed, others: readonly (string | undefined)[] = []): string {
  const times = [
    createdTime({ metadata }),
    metadata.annotations?.[annotations.updatedAt],
    metadata.deletionTimestamp,
    status?.updatedAt,
    status?.operation?.startedAt,
    ...others,
    ...(status?.conditions ?? []).map(condition => condition.lastTransitionTime),
  ]
  const known = times.map(time => Date.parse(time ?? '')).filter(ms => !Number.isNaN(ms))
  return known.length === 0 ? '' : new Date(Math.max(...known)).toISOString()
}
