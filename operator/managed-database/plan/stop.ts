/**
 * The one gate before anything of ours stops Postgres: a new size or volume, a restart that was asked for or is due,
 * suspension. Whatever stops a pod, and is not the deletion of the database itself, asks here first.
 */
import type { Observed } from '../observed.ts'
import { isLost } from './volume.ts'

/** Whether the data outlive the pod. A claim that somebody deletes is held by nothing but the pod that uses it. */
export function mayStop({ children: { claim } }: Observed): boolean {
  return claim?.metadata.deletionTimestamp === undefined
}

/** Whether no pod is to run: suspended as asked, or nothing to run it on. */
export function isStopped(observed: Observed): boolean {
  if (isLost(observed)) return true
  return observed.database.spec.suspended && (observed.pod === undefined || mayStop(observed))
}
