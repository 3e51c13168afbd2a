/**
 * The operator: the only writer of workloads and of status. It reads the cluster through one set of caches, and runs
 * one controller per kind. With leader election, the controllers run only while it leads, but its caches are always
 * synced.
 */
import type { Logger } from 'pino'
import type { Cluster } from '../cluster/index.ts'
import { createMetrics, fenced, instrumented, type Metrics, runWithLeaderLease } from '../controller/index.ts'
import { type PgVersion, systemNamespace } from '../crds/index.ts'
import { agentClients } from '../instance/agent/contract.ts'
import { type Check, type HealthServer, startHealthServer } from '../server/health.ts'
import { type Figures, metricsPage, processMetrics } from '../server/metrics.ts'
import { type ArchiveWays, createArchiveWays } from './archive/ways.ts'
import { type Caches, createCaches } from './caches.ts'
import { createClockGuard } from './clock/guard.ts'
import { clockJump } from './clock/jump.ts'
import { readMachine } from './clock/readings.ts'
import type { ClockReading } from './clock/trust.ts'
import type { OperatorConfiguration } from './configuration.ts'
import { aborted, runControllers } from './controllers.ts'
import { createKeyReader, type InstallationKeys } from './keys.ts'
import { createAccess, type PostgresAccess } from './member/postgres/access.ts'
import type { Trust } from './pki/trust.ts'
import type { WantedCertificates } from './system-certificates/index.ts'

export { type OperatorConfiguration, operatorConfiguration } from './configuration.ts'

export type Operator = {
  /** The address of its health page. Undefined without a health page. */
  readonly address: { host: string; port: number } | undefined
  /** Resolves when every cache has its first list. */
  synced(): Promise<void>
  /** Ends running passes and releases the lease. The next operator completes unfinished work. */
  stop(): Promise<void>
}

type OperatorOptions = {
  cluster: Cluster
  configuration: OperatorConfiguration
  /** The identity of this process among the replicas. */
  identity: string
  /** Access to Postgres. If absent, as the authority's client. */
  administrator?: PostgresAccess
  /** Access to agents and the archive. If absent, as the authority's client, if the configuration names an archive. */
  archive?: ArchiveWays
  logger: Logger
  now?: () => number
  /** The API server's clock, if it is another machine's. */
  serverNow?: () => number | undefined
  /** The machine's clocks. If absent, the kernel's. */
  machine?: () => Omit<ClockReading, 'server'>
  /** Other conditions for the operator to be ready. */
  otherChecks?: Record<string, Check>
  /** Whether a database of a major version can have pgvector. If absent, according to the configuration. */
  hasPgvector?: (version: PgVersion) => boolean | Promise<boolean>
  /** Metrics of other parts of the process, for the same page. */
  otherFigures?: () => Figures[]
}

const leaseName = 'espalier-operator'

/** Rejects only if the health page cannot listen. The cluster may become available later. */
export async function startOperator(options: OperatorOptions): Promise<Operator> {
  const { configuration, identity } = options
  const logger = options.logger.child({ part: 'operator' })
  const metrics = createMetrics()
  const cluster = instrumented(options.cluster, metrics)
  const caches = createCaches(cluster, logger, metrics, {
    pullSecrets: new Set(configuration.pods.imagePullSecrets.map(({ name }) => name)),
    byNamespace: configuration.rightsByNamespace,
    watchesAllSecrets: configuration.watchesAllSecrets,
  })
  const keys = createKeyReader(caches.systemSecrets)
  const { administrator, now = Date.now } = options
  const accessFor = accessReader(administrator, now, logger)
  const parts = { options, logger, metrics, caches, keys, accessFor }
  const lead: Lead = (signal, writer) => leadUntil(signal, writer, parts)
  const health = await startHealth(parts)
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

type Parts = {
  options: OperatorOptions
  logger: Logger
  metrics: Metrics
  caches: Caches
  keys: () => InstallationKeys
  accessFor: (authority: Trust) => PostgresAccess
}

async function startHealth({ options, logger, metrics, caches, keys }: Parts): Promise<HealthServer | undefined> {
  const { http } = options.configuration
  if (http === undefined) return undefined
  return startHealthServer({
    ...http,
    live: { process: () => undefined },
    ready: {
      caches: () => (caches.isSynced() ? undefined : 'the caches are not synced yet'),
      keys: () => missingKeys(keys()),
      ...options.otherChecks,
    },
    metrics: metricsPage(() => [metrics.registry, processMetrics(), ...(options.otherFigures?.() ?? [])]),
    logger,
  })
}

/** Runs the controllers until the signal aborts. Restarts them when the machine's clock was set. */
async function leadUntil(
  signal: AbortSignal,
  cluster: Cluster,
  { options, logger, metrics, caches, keys, accessFor }: Parts,
): Promise<void> {
  await Promise.race([caches.start(), aborted(signal)])
  const { configuration, identity, now = Date.now, serverNow = () => undefined } = options
  const { machine = () => readMachine(now) } = options
  const read = () => ({ ...machine(), server: serverNow() })
  const clock = createClockGuard({ cluster, read, logger, metrics })
  const guarding = clock.run(signal)
  const { hasPgvector = (version: PgVersion) => configuration.pgvectorVersions.includes(version) } = options
  const wanted = wantedCertificates(configuration)
  const archive = archiveReader(options, keys, now)
  const shared = { configuration, identity, keys, accessFor, wanted, hasPgvector, archive }
  while (!signal.aborted) {
    const round = new AbortController()
    const ends = AbortSignal.any([signal, round.signal])
    const work = runControllers({ cluster, caches, metrics, logger, now, clock, signal: ends }, shared)
    const jumpedMs = await Promise.race([clockJump(now, ends), work.then(() => undefined)])
    if (jumpedMs !== undefined)
      logger.warn({ seconds: Math.round(jumpedMs / 1000) }, 'the clock was set: the controllers restart')
    round.abort()
    await work
  }
  await guarding
}

type Lead = (signal: AbortSignal, writer: Cluster) => Promise<void>

function leadWithLease(
  cluster: Cluster,
  identity: string,
  lead: Lead,
  logger: Logger,
  metrics: Metrics,
): () => Promise<void> {
  const election = runWithLeaderLease({
    cluster,
    name: leaseName,
    namespace: systemNamespace,
    identity,
    onStarted: (signal, isLeader) => lead(signal, fenced(cluster, signal, isLeader)),
    logger,
    metrics,
  })
  return () => election.stop()
}

function leadAlone(cluster: Cluster, lead: Lead, logger: Logger): () => Promise<void> {
  const stopping = new AbortController()
  const led = lead(stopping.signal, cluster).catch(error => {
    if (!stopping.signal.aborted) logger.error({ err: error }, 'the controllers have stopped unexpectedly')
  })
  return () => {
    stopping.abort()
    return led
  }
}

function missingKeys({ sealingKey, authority }: InstallationKeys): string | undefined {
  if (sealingKey === undefined) return 'the sealing key is missing'
  return authority === undefined ? 'the certificate authority is missing' : undefined
}

/** Returns the same access to Postgres as long as the authority is unchanged. */
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

/** Returns the same client of the archive as long as the authority is unchanged. */
function archiveReader(
  { archive: given, configuration }: Pick<OperatorOptions, 'archive' | 'configuration'>,
  keys: () => InstallationKeys,
  now: () => number,
): () => ArchiveWays | undefined {
  const url = configuration.pods.archive?.url
  let current: { authority: Trust; ways: ArchiveWays } | undefined
  return () => {
    const { authority } = keys()
    if (url === undefined || authority === undefined) return undefined
    if (given !== undefined) return given
    if (current?.authority !== authority) current = { authority, ways: createArchiveWays(authority, url, now) }
    return current.ways
  }
}

/** Always includes the API's certificate, with which the API connects to databases' agents. */
function wantedCertificates({ certificates }: OperatorConfiguration): WantedCertificates {
  if (certificates === undefined) return {}
  const { api, gateway, archive, metricsClient } = certificates
  return {
    ...(api ? { api } : {}),
    ...(gateway ? { gateway } : {}),
    ...(archive ? { archive } : {}),
    apiClient: { commonName: agentClients.api },
    ...(metricsClient ? { metricsClient: { commonName: agentClients.metrics } } : {}),
  }
}
