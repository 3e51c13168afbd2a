/**
 * The operator: the only writer of workloads and of status. It follows the cluster through one set of caches and runs one
 * controller per kind; with leader election, only while it leads, but with its caches warm.
 */
import type { Logger } from 'pino'
import type { Cluster } from '../cluster/index.ts'
import { createEventRecorder, createMetrics, fenced, instrumented, runWithLeaderLease } from '../controller/index.ts'
import { systemNamespace } from '../crds/index.ts'
import { agentClients } from '../instance/agent/contract.ts'
import type { SystemCertificate } from '../sealing/credentials.ts'
import { type Check, startHealthServer } from '../server/health.ts'
import { type Figures, metricsPage, processMetrics } from '../server/metrics.ts'
import { startAccessController } from './access/controller.ts'
import { startAuthorityController } from './authority/controller.ts'
import type { Trust } from './authority/state.ts'
import { startBackupController } from './backup/controller.ts'
import { startBackupSchedules } from './backup/schedule/controller.ts'
import { startBranchController } from './branch/controller.ts'
import { createCaches } from './caches.ts'
import { type ClockGuard, createClockGuard } from './clock/guard.ts'
import { clockJump } from './clock/jump.ts'
import { readMachine } from './clock/readings.ts'
import type { ClockReading } from './clock/trust.ts'
import type { OperatorConfiguration } from './configuration.ts'
import { createKeyReader, type InstallationKeys } from './keys.ts'
import { startDatabaseController } from './managed-database/controller.ts'
import { createAccess, type PostgresAccess } from './member/postgres/access.ts'
import { startRegionController } from './region/controller.ts'
import { startRestoreController } from './restore/controller.ts'
import { startSystemCertificates, type WantedCertificates } from './system-certificates/index.ts'
import { startTaskController } from './task/controller.ts'
import { backupSubjects, branchSubjects, databaseSubjects } from './task/subject.ts'
import { startTenantController } from './tenant/controller.ts'

export { type OperatorConfiguration, operatorConfiguration } from './configuration.ts'

export type Operator = {
  /** Where its health page is; absent without one. */
  readonly address: { host: string; port: number } | undefined
  /** Resolves once every cache has its first list. */
  synced(): Promise<void>
  /** Ends running passes and gives the lease back; what is not done is found by the next operator. */
  stop(): Promise<void>
}

type OperatorOptions = {
  cluster: Cluster
  configuration: OperatorConfiguration
  /** Names this process among the replicas. */
  identity: string
  /** How Postgres is reached; absent: as the authority's client. */
  administrator?: PostgresAccess
  logger: Logger
  now?: () => number
  /** The API server's clock, where that is another one. */
  serverNow?: () => number | undefined
  /** The machine's; absent: as the kernel tells. */
  machine?: () => Omit<ClockReading, 'server'>
  /** What else has to hold for the operator to be ready. */
  otherChecks?: Record<string, Check>
  /** Figures of other parts of the process, for the same page. */
  otherFigures?: () => Figures[]
}

const leaseName = 'espalier-operator'
const fewWorkers = 4

/** Rejects only where the health page cannot listen; the cluster may come later. */
export async function startOperator(options: OperatorOptions): Promise<Operator> {
  const { configuration, identity, now = Date.now } = options
  const logger = options.logger.child({ part: 'operator' })
  const metrics = createMetrics()
  const cluster = instrumented(options.cluster, metrics)
  const pullSecretNames = configuration.pods.imagePullSecrets.map(({ name }) => name)
  const caches = createCaches(cluster, logger, metrics, {
    pullSecrets: new Set(pullSecretNames),
    byNamespace: configuration.rightsByNamespace,
    watchesAllSecrets: configuration.watchesAllSecrets,
  })
  const keys = createKeyReader(caches.systemSecrets)
  const wanted = wantedCertificates(configuration)
  const accessFor = accessReader(options.administrator, now, logger)

  /** Runs the controllers until the signal aborts; they start anew when the machine's clock is set. */
  const lead = async (signal: AbortSignal, writer: Cluster): Promise<void> => {
    await Promise.race([caches.start(), aborted(signal)])
    const { serverNow = () => undefined, machine = () => readMachine(now) } = options
    const clock = createClockGuard({
      cluster: writer,
      read: () => ({ ...machine(), server: serverNow() }),
      logger,
      metrics,
    })
    const guarding = clock.run(signal)
    while (!signal.aborted) {
      const round = new AbortController()
      const ends = AbortSignal.any([signal, round.signal])
      const work = runControllers(ends, writer, clock)
      const jumpedMs = await Promise.race([clockJump(now, ends), work.then(() => undefined)])
      if (jumpedMs !== undefined)
        logger.warn({ seconds: Math.round(jumpedMs / 1000) }, 'the clock was set: the controllers start anew')
      round.abort()
      await work
    }
    await guarding
  }

  const runControllers = async (signal: AbortSignal, writer: Cluster, clock: ClockGuard): Promise<void> => {
    const events = createEventRecorder({
      cluster: writer,
      component: 'espalier-operator',
      instance: identity,
      logger,
      metrics,
    })
    const common = { cluster: writer, caches, metrics, logger, now, clock, signal }
    const databases = startDatabaseController({
      ...common,
      keys,
      accessFor,
      images: configuration.images.postgres,
      pods: configuration.pods,
      settings: { deadlines: configuration.deadlines },
      workers: configuration.workers,
      certificatesAtOnce: configuration.certificatesAtOnce,
      events,
    })
    const branches = startBranchController({
      ...common,
      keys,
      accessFor,
      images: configuration.images.postgres,
      pods: configuration.pods,
      settings: {
        creatingMs: configuration.deadlines.creatingMs,
        maintenanceMs: configuration.deadlines.modifyingMs,
        highestDepth: configuration.branches.highestDepth,
      },
      workers: configuration.workers,
      certificatesAtOnce: configuration.certificatesAtOnce,
      events,
    })
    const suspect = { ManagedDatabase: databases.suspect, Branch: branches.suspect }
    const controllers = [
      databases,
      branches,
      startBackupController({
        ...common,
        keys,
        accessFor,
        deadlines: configuration.backups,
        suspect: (kind, key) => suspect[kind](key),
        images: configuration.images.postgres,
        pods: configuration.pods,
        workers: configuration.workers,
        events,
      }),
      startRestoreController({
        ...common,
        keys,
        accessFor,
        images: configuration.images.postgres,
        pods: configuration.pods,
        deadlines: configuration.deadlines,
        workers: fewWorkers,
        events,
      }),
      startBackupSchedules({ ...common, ...configuration.backups, workers: fewWorkers }),
      startRegionController({ ...common, events }),
      startTaskController({
        ...common,
        workers: fewWorkers,
        sources: [databaseSubjects(caches), branchSubjects(caches), backupSubjects(caches)],
      }),
      ...(configuration.rightsByNamespace ? [startAccessController({ ...common, workers: fewWorkers })] : []),
      startTenantController({ ...common, workers: fewWorkers, pullSecrets: pullSecretNames }),
      startAuthorityController({
        ...common,
        certificates: Object.keys(wanted) as SystemCertificate[],
        waits: configuration.authority,
      }),
      ...(configuration.certificates ? [startSystemCertificates({ ...common, keys, wanted })] : []),
    ]
    logger.info('the controllers have started')
    await aborted(signal)
    await Promise.all(controllers.map(controller => controller.stop()))
    await events.stop()
  }

  const health =
    configuration.http &&
    (await startHealthServer({
      ...configuration.http,
      live: { process: () => undefined },
      ready: {
        caches: () => (caches.isSynced() ? undefined : 'the caches are not synced yet'),
        keys: () => missingKeys(keys()),
        ...options.otherChecks,
      },
      metrics: metricsPage(() => [metrics.registry, processMetrics(), ...(options.otherFigures?.() ?? [])]),
      logger,
    }))
  const started = caches.start()
  const stopLeading = configuration.leaderElection
    ? leadWithLease(cluster, identity, lead, logger, metrics)
    : leadAlone(cluster, lead, logger)

  return {
    address: health?.address,
    synced: () => started,
    stop: async () => {
      await stopLeading()
      await caches.stop()
      await health?.stop()
    },
  }
}

type Lead = (signal: AbortSignal, writer: Cluster) => Promise<void>

function leadWithLease(
  cluster: Cluster,
  identity: string,
  lead: Lead,
  logger: Logger,
  metrics: ReturnType<typeof createMetrics>,
): () => Promise<void> {
  const election = runWithLeaderLease({
    cluster,
    name: leaseName,
    namespace: systemNamespace,
    identity,
    onStarted: (signal, held) => lead(signal, fenced(cluster, signal, held)),
    logger,
    metrics,
  })
  return () => election.stop()
}

function leadAlone(cluster: Cluster, lead: Lead, logger: Logger): () => Promise<void> {
  const stopping = new AbortController()
  const led = lead(stopping.signal, cluster).catch(error => {
    if (!stopping.signal.aborted) logger.error({ err: error }, 'the controllers have stopped on their own')
  })
  return () => {
    stopping.abort()
    return led
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })

function missingKeys({ sealingKey, authority }: InstallationKeys): string | undefined {
  if (sealingKey === undefined) return 'the sealing key is missing'
  return authority === undefined ? 'the certificate authority is missing' : undefined
}

/** One way into Postgres for as long as the authority is the same. */
function accessReader(
  given: PostgresAccess | undefined,
  now: () => number,
  logger: Logger,
): (authority: Trust) => PostgresAccess {
  let current: { authority: Trust; access: PostgresAccess } | undefined
  return authority => {
    if (given !== undefined) return given
    if (current?.authority !== authority) current = { authority, access: createAccess({ authority, now, logger }) }
    return current.access
  }
}

/** The API's is always among them: it asks the agents of databases by it. */
function wantedCertificates({ certificates }: OperatorConfiguration): WantedCertificates {
  if (certificates === undefined) return {}
  const { api, gateway, metricsClient } = certificates
  return {
    ...(api ? { api } : {}),
    ...(gateway ? { gateway } : {}),
    apiClient: { commonName: agentClients.api },
    ...(metricsClient ? { metricsClient: { commonName: agentClients.metrics } } : {}),
  }
}
