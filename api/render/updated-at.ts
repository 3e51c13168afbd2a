/**
 * When an object was last updated, as a client sees it: the latest of its creation, its last write through the API (an
 * annotation, since managedFields belong to the cluster and are dropped from caches), the last visible change observed
 * by the operator, the start of its running operation, its conditions' last transitions, and its deletion. For a
 * database also when a branch was created or deleted, and when visible fields of its account or region changed.
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
