/** Figures about backups: how long they take, and how they end. */
import { Counter, Histogram } from 'prom-client'
import type { Metrics } from '../../controller/index.ts'
import type { Backup } from '../../crds/index.ts'

type BackupMetrics = {
  ended(backup: Backup, outcome: string, now: number): void
  verified(backup: Backup, outcome: string): void
  stop(): void
}

const name = 'espalier_backup_duration_seconds'
const verificationsName = 'espalier_backup_verifications_total'
const seconds = [0.5, 1, 2, 3, 5, 10, 30, 60, 300, 1800, 7200]

export function createBackupMetrics({ registry }: Metrics): BackupMetrics {
  const durations = new Histogram({
    name,
    help: 'Backups from being asked for to their end, by kind, purpose and how they ended',
    labelNames: ['kind', 'purpose', 'outcome'],
    buckets: seconds,
    registers: [registry],
  })
  const verifications = new Counter({
    name: verificationsName,
    help: 'Checks of copies of backups, by what came of them: verified, damaged, or unchecked where there was none',
    labelNames: ['purpose', 'outcome'],
    registers: [registry],
  })
  return {
    verified: ({ spec: { purpose } }, outcome) => verifications.inc({ purpose, outcome }),
    ended: ({ metadata, spec: { kind, purpose } }, outcome, now) => {
      const took = Math.max(0, (now - Date.parse(metadata.creationTimestamp ?? '')) / 1000)
      durations.observe({ kind, purpose, outcome }, took)
    },
    stop: () => {
      registry.removeSingleMetric(name)
      registry.removeSingleMetric(verificationsName)
    },
  }
}
