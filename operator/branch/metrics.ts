/** Metrics of branches: their number by phase, and the time until a branch is connectable. */
import { Gauge, Histogram } from 'prom-client'
import type { Metrics } from '../../controller/index.ts'
import { type Branch, branchPhase, branchPhases } from '../../crds/index.ts'

type BranchMetrics = { ended(branch: Branch, outcome: 'available' | 'failed', now: number): void; stop(): void }

const [count, duration] = ['espalier_branches', 'espalier_branch_duration_seconds']
const seconds = [0.5, 1, 2, 3, 5, 10, 30, 60, 300, 600, 1800]

export function createBranchMetrics({ registry }: Metrics, branches: () => Branch[]): BranchMetrics {
  new Gauge({
    name: count,
    help: 'Branches by phase; `deleted` counts the records that remain for 30 days after a deletion',
    labelNames: ['phase'],
    registers: [registry],
    collect() {
      const counts = new Map<string, number>(branchPhases.map(phase => [phase, 0]))
      for (const branch of branches()) counts.set(branchPhase(branch), (counts.get(branchPhase(branch)) ?? 0) + 1)
      for (const [phase, found] of counts) this.set({ phase }, found)
    },
  })
  const durations = new Histogram({
    name: duration,
    help: 'Time from the request for a branch until the branch is connectable or its creation has failed',
    labelNames: ['outcome'],
    buckets: seconds,
    registers: [registry],
  })
  return {
    ended: ({ metadata }, outcome, now) =>
      durations.observe({ outcome }, Math.max(0, (now - Date.parse(metadata.creationTimestamp ?? '')) / 1000)),
    stop: () => {
      for (const name of [count, duration]) registry.removeSingleMetric(name)
    },
  }
}
