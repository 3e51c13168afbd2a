/** The controllers of the operator, one per kind. They run while the operator is the leader. */
import { createEventRecorder, type EventRecorder } from '../controller/index.ts'
import type { PgVersion } from '../crds/index.ts'
import type { SystemCertificate } from '../sealing/credentials.ts'
import { startAccessController } from './access/controller.ts'
import { createArchiveMetrics } from './archive/metrics.ts'
import { type ArchiveWatch, startArchiveWatch } from './archive/watch.ts'
import type { ArchiveWays } from './archive/ways.ts'
import { startAuthorityController } from './authority/controller.ts'
import { startBackupController } from './backup/controller.ts'
import { startBackupSchedules } from './backup/schedule/controller.ts'
import { startWalExpiry } from './backup/schedule/wal-expiry.ts'
import { startBranchController } from './branch/controller.ts'
import type { OperatorConfiguration } from './configuration.ts'
import type { ControllerOptions } from './controller-options.ts'
import { startDeletedDatabases } from './deleted-database/controller.ts'
import type { InstallationKeys } from './keys.ts'
import { startDatabaseController } from './managed-database/controller.ts'
import type { PostgresAccess } from './member/postgres/access.ts'
import type { Trust } from './pki/trust.ts'
import { startRegionController } from './region/controller.ts'
import { startHttpsCertificates } from './region/https-certificates.ts'
import { startRestoreController } from './restore/controller.ts'
import { createNodeCount } from './service/nodes.ts'
import { createUpgradeSlots } from './service/upgrades.ts'
import { startSystemCertificates, type WantedCertificates } from './system-certificates/index.ts'
import { startTaskController } from './task/controller.ts'
import { backupSubjects, branchSubjects, databaseSubjects } from './task/subject.ts'
import { startTenantController } from './tenant/controller.ts'

/** Options that only some controllers need. */
type Shared = {
  configuration: OperatorConfiguration
  /** The identity of this process among the replicas. */
  identity: string
  keys: () => InstallationKeys
  accessFor: (authority: Trust) => PostgresAccess
  wanted: WantedCertificates
  /** Undefined if the installation has no archive, or no authority at present. */
  archive: () => ArchiveWays | undefined
  /** Whether a database of a major version can have pgvector. */
  hasPgvector: (version: PgVersion) => boolean | Promise<boolean>
}

type Controller = { stop(): Promise<void> }
type Started = { common: ControllerOptions; shared: Shared; events: EventRecorder }

const fewWorkers = 4

/** The options of controllers whose objects have a Postgres. */
const withPostgres = ({ common, shared: { configuration, keys, accessFor }, events }: Started) => ({
  ...common,
  ...{ keys, accessFor, events, images: configuration.images.postgres, pods: configuration.pods },
})

/** For databases with the durable tier. */
function startArchiveWatchOf({ common, shared: { configuration, keys, archive } }: Started) {
  const { caches, logger, metrics, now } = common
  const hasArchive = configuration.pods.archive !== undefined
  const watch = startArchiveWatch({
    ...{ caches, keys, ways: archive, hasArchive, now, logger },
    checkMs: configuration.archiving.lookMs,
  })
  const removeMetrics = createArchiveMetrics(metrics, () => caches.databases.list(), watch.answers, now)
  return {
    ...watch,
    stop: async () => {
      removeMetrics()
      await watch.stop()
    },
  }
}

function startOwners(started: Started, archiveWatch: ArchiveWatch) {
  const { configuration, hasPgvector } = started.shared
  const { deadlines, branches, imports, workers, certificatesAtOnce, images, pods, services: settings } = configuration
  const { cluster, now } = started.common
  const nodes = createNodeCount({ cluster, podSettings: pods, now })
  const upgrades = createUpgradeSlots({ most: settings.upgradesAtOnce, now })
  const services = { image: images.services, settings, nodes, upgrades }
  const options = { ...withPostgres(started), workers, certificatesAtOnce, services, hasPgvector }
  return {
    databases: startDatabaseController({ ...options, archiveWatch, settings: { deadlines, imports }, imports }),
    branches: startBranchController({
      ...options,
      settings: {
        creatingMs: deadlines.creatingMs,
        maintenanceMs: deadlines.modifyingMs,
        highestDepth: branches.highestDepth,
      },
    }),
  }
}

function startRuns(started: Started, { databases, branches }: ReturnType<typeof startOwners>): Controller[] {
  const { archive, configuration } = started.shared
  const { backups, deadlines, workers } = configuration
  const reportUnreachable = { ManagedDatabase: databases.reportUnreachable, Branch: branches.reportUnreachable }
  const options = withPostgres(started)
  return [
    startBackupController({
      ...options,
      deadlines: backups,
      archive,
      reportUnreachable: (kind, key) => reportUnreachable[kind](key),
      workers,
    }),
    startRestoreController({ ...options, deadlines, workers: fewWorkers }),
    startBackupSchedules({
      ...{ ...started.common, ...backups, workers: fewWorkers },
      hasArchive: configuration.pods.archive !== undefined,
    }),
    startWalExpiry({ ...started.common, archive }),
    startDeletedDatabases({ ...started.common, archive, events: started.events, workers: fewWorkers }),
  ]
}

/** Regions, Tasks, tenants, and objects of the installation itself. */
function startInstallation({ common, shared: { configuration, keys, wanted }, events }: Started): Controller[] {
  const { caches } = common
  const pullSecrets = configuration.pods.imagePullSecrets.map(({ name }) => name)
  return [
    startRegionController({ ...common, events, keys }),
    startHttpsCertificates({ ...common, keys }),
    startTaskController({
      ...common,
      workers: fewWorkers,
      sources: [databaseSubjects(caches), branchSubjects(caches), backupSubjects(caches)],
    }),
    ...(configuration.rightsByNamespace ? [startAccessController({ ...common, workers: fewWorkers })] : []),
    startTenantController({ ...common, workers: fewWorkers, pullSecrets }),
    startAuthorityController({
      ...common,
      certificates: Object.keys(wanted) as SystemCertificate[],
      waits: configuration.authority,
    }),
    ...(configuration.certificates ? [startSystemCertificates({ ...common, keys, wanted })] : []),
  ]
}

/** Starts the controllers, and stops them when the signal aborts. */
export async function runControllers(common: ControllerOptions, shared: Shared): Promise<void> {
  const { cluster, logger, metrics, signal } = common
  const { identity: instance } = shared
  const events = createEventRecorder({ cluster, component: 'espalier-operator', instance, logger, metrics })
  const started = { common, shared, events }
  const archiveWatch = startArchiveWatchOf(started)
  const owners = startOwners(started, archiveWatch)
  const controllers = [
    archiveWatch,
    ...Object.values(owners),
    ...startRuns(started, owners),
    ...startInstallation(started),
  ]
  logger.info('the controllers have started')
  await aborted(signal)
  await Promise.all(controllers.map(controller => controller.stop()))
  await events.stop()
}

export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
