/** Metrics of deleted databases: how many can be restored, and how many still have objects to delete. */
import { Gauge } from 'prom-client'
import type { ConfigMap } from '../../cluster/index.ts'
import type { Metrics } from '../../controller/index.ts'
import { isPurged, readDeletedDatabase, specOfDeleted } from '../../crds/index.ts'

const names = {
  count: 'espalier_deleted_databases',
  window: 'espalier_deleted_database_window_seconds',
  overdue: 'espalier_deleted_database_overdue_seconds',
} as const

/**
 * `endsAt`: the database can be restored until this time. `endedAt`: since this time its remaining objects must be
 * deleted. In ms.
 */
type Found = { endsAt: number } | { endedAt: number }

function readFound(map: ConfigMap, now: number): Found[] {
  const deleted = readDeletedDatabase(map)
  if (deleted === undefined) return []
  const deletedAt = Date.parse(deleted.deletedAt)
  // The time of a purge request is unknown.
  if (deleted.keptUntil === undefined || isPurged(map)) return [{ endedAt: deletedAt }]
  const endsAt = Date.parse(deleted.keptUntil)
  if (endsAt <= now) return [{ endedAt: endsAt }]
  return specOfDeleted(map) === undefined ? [] : [{ endsAt }]
}

/** @returns the function that removes the metrics */
export function createDeletedDatabaseMetrics(
  { registry }: Metrics,
  records: () => readonly ConfigMap[],
  now: () => number,
): () => void {
  const found = () => records().flatMap(map => readFound(map, now()))
  const windows = () => found().flatMap(each => ('endsAt' in each ? [(each.endsAt - now()) / 1000] : []))
  const overdue = () => found().flatMap(each => ('endedAt' in each ? [(now() - each.endedAt) / 1000] : []))
  const registers = [registry]
  const count: Gauge<'state'> = new Gauge({
    name: names.count,
    help: 'Deleted databases: restorable, or deleting while secrets or archives remain',
    labelNames: ['state'],
    registers,
    collect: () => {
      count.set({ state: 'restorable' }, windows().length)
      count.set({ state: 'deleting' }, overdue().length)
    },
  })
  const window: Gauge = new Gauge({
    name: names.window,
    help: 'How long the deleted database whose window ends first can still be restored; no sample if there is none',
    registers,
    collect: () => {
      window.remove()
      if (windows().length > 0) window.set(Math.min(...windows()))
    },
  })
  const late: Gauge = new Gauge({
    name: names.overdue,
    help: 'How long objects of a deleted database that cannot be restored have remained, for the one with the longest time',
    registers,
    collect: () => late.set(Math.max(0, ...overdue())),
  })
  return () => {
    for (const name of Object.values(names)) registry.removeSingleMetric(name)
  }
}
