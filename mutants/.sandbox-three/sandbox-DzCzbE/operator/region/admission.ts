/**
 * Which databases are restarted next in a region's window: never more at once than the region says, each once a window,
 * and none while one that was restarted does not serve. Pure, and decided by what the databases themselves say, so that
 * another operator that takes over decides the same.
 */
// @ts-nocheck

import { type ManagedDatabase, visiblePhase } from '../../crds/index.ts'

export type Admission = {
  /** To be restarted now, in order. */
  next: ManagedDatabase[]
  /** Wait for their turn. */
  waiting: number
  /** Are being restarted. */
  running: number
  /** Were restarted in a window and do not serve: nothing more is restarted until they do. */
  failed: ManagedDatabase[]
}

const isRestarting = ({ status }: ManagedDatabase): boolean =>
  (status?.maintenance !== undefined && status.maintenance.endedAt === undefined) ||
  status?.operation?.name === 'restart-managed'

const isFailed = ({ status }: ManagedDatabase): boolean => status?.maintenance?.outcome === 'failed'

/** Serves, has something to gain, and was not restarted in this window already. */
const isDue = (database: ManagedDatabase, mark: string): boolean => {
  const { status } = database
  return (
    (status?.pendingRestart ?? []).length > 0 &&
    status?.operation === undefined &&
    visiblePhase(database) === 'available' &&
    status?.maintenance?.restart !== mark
  )
}

/** Who has waited longest comes first. */
const order = (database: ManagedDatabase): string => {
  const since = database.status?.pendingRestart?.map(entry => entry.since).sort()[0] ?? ''
  return `${since} ${database.metadata.namespace}/${database.metadata.name}`
}

/** Whether a database plays a part in what `admit` decides. */
export const isOfInterest = (database: ManagedDatabase): boolean =>
  (database.status?.pendingRestart ?? []).length > 0 || isRestarting(database) || isFailed(database)

/**
 * `databases`: those of the region that are of interest; `mark`: the window's. One whose deletion is blocked counts as any: it is to go
 * on serving. With a teardown its restart has ended.
 */
export function admit(databases: readonly ManagedDatabase[], mark: string, maxConcurrent: number): Admission {
  const failed = databases.filter(isFailed)
  const running = databases.filter(isRestarting).length
  const due = databases
    .filter(database => !isRestarting(database) && !isFailed(database) && isDue(database, mark))
    .toSorted((left, right) => (order(left) < order(right) ? -1 : 1))
  const room = failed.length > 0 ? 0 : Math.max(0, maxConcurrent - running)
  return { next: due.slice(0, room), waiting: due.length, running, failed }
}
