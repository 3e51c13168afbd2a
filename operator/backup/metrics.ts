/** Metrics of backups: duration and results. */
import { Counter, Gauge, Histogram } from 'prom-client'
import type { Metrics } from '../../controller/index.ts'
import type { Backup } from '../../crds/index.ts'

type BackupMetrics = {
  ended(backup: Backup, outcome: string, now: number): void
  verified(backup: Backup, outcome: string): void
  stop(): void
}

const name = 'espalier_backup_duration_seconds'
const verificationsName = 'espalier_backup_verifications_total'
const proofName = 'espalier_archive_proof_age_seconds'
const seconds = [0.5, 1, 2, 3, 5, 10, 30, 60, 300, 1800, 7200]

/** `proofAge`: see oldestProofSeconds. */
export function createBackupMetrics({ registry }: Metrics, proofAge: () => number): BackupMetrics {
  const durations = new Histogram({
    name,
    help: 'Duration of backups from request to end, by kind, purpose and result',
    labelNames: ['kind', 'purpose', 'outcome'],
    buckets: seconds,
    registers: [registry],
  })
  const verifications = new Counter({
    name: verificationsName,
    help: 'Verifications of backup copies by result: verified, damaged, or unchecked if there was no result',
    labelNames: ['purpose', 'outcome'],
    registers: [registry],
  })
  const proof: Gauge = new Gauge({
    name: proofName,
    help: 'Time since a durable backup was last restored and found intact, for the tenant with the longest time',
    registers: [registry],
    collect: () => proof.set(proofAge()),
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
      registry.removeSingleMetric(proofName)
    },
  }
}
