/**
 * When an object was last updated, as a client sees it: the latest of its creation, the last write through the API
 * (kept as an annotation, since managedFields belong to the cluster and are dropped from caches), the last change that the
 * operator saw of what users see, the start of its running operation, and its conditions' last transitions; of a database also
 * when a branch of it came or went.
 */
import type { Condition } from '../../crds/index.ts'
import { type Created, createdTime } from './created-at.ts'

export const updatedAtAnnotation = 'espalier.dev/updated-at'

type Observed = {
  metadata: Created['metadata'] & { annotations?: Record<string, string> }
  status?: {
    conditions?: Condition[] | undefined
    updatedAt?: string | undefined
    operation?: { startedAt: string } | undefined
  }
}

export function updatedAt({ metadata, status }: Observed, others: readonly (string | undefined)[] = []): string {
  const times = [
    createdTime({ metadata }),
    metadata.annotations?.[updatedAtAnnotation],
    status?.updatedAt,
    status?.operation?.startedAt,
    ...others,
    ...(status?.conditions ?? []).map(condition => condition.lastTransitionTime),
  ]
  const known = times.map(time => Date.parse(time ?? '')).filter(ms => !Number.isNaN(ms))
  return known.length === 0 ? '' : new Date(Math.max(...known)).toISOString()
}
