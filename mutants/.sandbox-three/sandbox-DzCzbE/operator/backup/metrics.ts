/** Figures about backups: how long they take, and how they end. */
// @ts-nocheck

import { Histogram } from 'prom-client'
import type { Metrics } from '../../controller/index.ts'
import type { Backup } from '../../crds/index.ts'

type BackupMetrics = { ended(backup: Backup, outcome: string, now: number): void; stop(): void }

const name = 'espalier_backup_duration_seconds'
const seconds = [0.5, 1, 2, 3, 5, 10, 30, 60, 300, 1800, 7200]

export function createBackupMetrics({ registry }: Metrics): BackupMetrics {
  const durations = new Histogram({
    name,
    help: 'Backups from being asked for to their end, by kind, purpose and how they ended',
    labelNames: ['kind', 'purpose', 'outcome'],
    buckets: seconds,
    registers: [registry],
  })
  return {
    ended: ({ metadata, spec: { kind, purpose } }, outcome, now) => {
      const took = Math.max(0, (now - Date.parse(metadata.creationTimestamp ?? '')) / 1000)
      durations.observe({ kind, purpose, outcome }, took)
    },
    stop: () => registry.removeSingleMetric(name),
  }
}
