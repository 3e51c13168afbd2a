/** Metrics of databases: their number by phase, and the duration of operations. */
import { Gauge, Histogram } from 'prom-client'
import type { Metrics } from '../../controller/index.ts'
import { databasePhases, type ManagedDatabase, serviceTypes } from '../../crds/index.ts'
import { checksumFailures, conditionOf } from '../objects/conditions.ts'
import type { EndedOperation } from './report.ts'

type DatabaseMetrics = { ended(operation: EndedOperation): void; stop(): void }

const serviceStates = ['pending', 'running', 'failed'] as const

const seconds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800]

export function createDatabaseMetrics({ registry }: Metrics, databases: () => ManagedDatabase[]): DatabaseMetrics {
  const phases: Gauge<'phase'> = new Gauge({
    name: 'espalier_databases',
    help: 'Databases by phase',
    labelNames: ['phase'],
    registers: [registry],
    collect: () => {
      const counts = new Map<string, number>(databasePhases.map(phase => [phase, 0]))
      for (const database of databases()) {
        const isDeleting = database.metadata.deletionTimestamp !== undefined
        const phase = isDeleting ? 'deleting' : (database.status?.phase ?? 'creating')
        counts.set(phase, (counts.get(phase) ?? 0) + 1)
      }
      for (const [phase, count] of counts) phases.set({ phase }, count)
    },
  })
  const damaged: Gauge = new Gauge({
    name: 'espalier_databases_with_checksum_failures',
    help: 'Databases in which Postgres has read pages that do not match their checksums',
    registers: [registry],
    collect: () => {
      const isDamaged = ({ status }: ManagedDatabase) => conditionOf(status, 'VolumeReady')?.reason === checksumFailures
      damaged.set(databases().filter(isDamaged).length)
    },
  })
  const retained: Gauge = new Gauge({
    name: 'espalier_databases_with_held_retention',
    help: 'Databases with a backup that is kept beyond its age or count because no later one is verified',
    registers: [registry],
    collect: () => {
      const isRetentionHeld = ({ status }: ManagedDatabase) => conditionOf(status, 'RetentionHeld') !== undefined
      retained.set(databases().filter(isRetentionHeld).length)
    },
  })
  const services: Gauge<'type' | 'state'> = new Gauge({
    name: 'espalier_services',
    help: 'Services of databases by type and state',
    labelNames: ['type', 'state'],
    registers: [registry],
    collect: () => {
      for (const type of serviceTypes) for (const state of serviceStates) services.set({ type, state }, 0)
      for (const { status } of databases())
        for (const { serviceType: type, state } of status?.services ?? []) services.inc({ type, state })
    },
  })
  const misconfigured: Gauge = new Gauge({
    name: 'espalier_databases_with_misconfigured_services',
    help: 'Databases with a service that names something that does not exist, or violates a rule (ServicesConfigured)',
    registers: [registry],
    collect: () => {
      const isWrong = ({ status }: ManagedDatabase) => conditionOf(status, 'ServicesConfigured')?.status === 'False'
      misconfigured.set(databases().filter(isWrong).length)
    },
  })
  const operations = new Histogram({
    name: 'espalier_operation_duration_seconds',
    help: 'Duration of operations on databases, by name and result',
    labelNames: ['operation', 'outcome'],
    buckets: seconds,
    registers: [registry],
  })
  return {
    ended: ({ name, outcome, seconds: took }) => operations.observe({ operation: name, outcome }, took),
    stop: () => {
      registry.removeSingleMetric('espalier_databases')
      registry.removeSingleMetric('espalier_databases_with_checksum_failures')
      registry.removeSingleMetric('espalier_databases_with_held_retention')
      registry.removeSingleMetric('espalier_services')
      registry.removeSingleMetric('espalier_databases_with_misconfigured_services')
      registry.removeSingleMetric('espalier_operation_duration_seconds')
    },
  }
}
