/** Metrics of archiving. */
import { Gauge } from 'prom-client'
import type { Metrics } from '../../controller/index.ts'
import type { ManagedDatabase } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { type AgentAnswer, expectedReasons } from './condition.ts'

const names = {
  databases: 'espalier_databases_with_durable_tier',
  lag: 'espalier_archive_lag_bytes',
  late: 'espalier_archive_lag_seconds',
} as const

/** Each duration uses one clock: the agent's until its answer, and the operator's after that. */
function lateMs({ status, at }: AgentAnswer, now: number): number {
  if (status === undefined || status.lagBytes === null || status.lagBytes === 0) return 0
  const since = status.archivedAt ?? status.startedAt
  if (since === undefined) return 0
  return status.now === undefined ? now - since : status.now - since + (now - at)
}

/** @returns the function that removes the metrics */
export function createArchiveMetrics(
  { registry }: Metrics,
  databases: () => readonly ManagedDatabase[],
  answers: () => readonly AgentAnswer[],
  now: () => number,
): () => void {
  const statuses = () => answers().flatMap(({ status }) => (status === undefined ? [] : [status]))
  const counted: Gauge<'state'> = new Gauge({
    name: names.databases,
    help: 'Databases with the durable tier by archiving state: archiving, failing, or waiting for a start',
    labelNames: ['state'],
    registers: [registry],
    collect: () => {
      const counts = { archiving: 0, failing: 0, waiting: 0 }
      for (const { spec, status } of databases()) {
        if (!spec.backup.durable) continue
        const found = conditionOf(status, 'Archiving')
        const isWaiting = found === undefined || expectedReasons.has(found.reason)
        counts[found?.status === 'True' ? 'archiving' : isWaiting ? 'waiting' : 'failing'] += 1
      }
      for (const [state, count] of Object.entries(counts)) counted.set({ state }, count)
    },
  })
  const lag: Gauge = new Gauge({
    name: names.lag,
    help: 'WAL that is written and not in the archive, for the database with the most',
    registers: [registry],
    collect: () => lag.set(Math.max(0, ...statuses().map(({ lagBytes }) => lagBytes ?? 0))),
  })
  const late: Gauge = new Gauge({
    name: names.late,
    help: 'Age of the oldest WAL that is not in the archive, for the database with the oldest',
    registers: [registry],
    collect: () => {
      late.set(Math.max(0, ...answers().map(answer => lateMs(answer, now()) / 1000)))
    },
  })
  return () => {
    for (const name of Object.values(names)) registry.removeSingleMetric(name)
  }
}
