/** An API with its own cluster, a fake operator, and tokens. The API's tests use it. */
import { randomBytes, randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import { type Logger, pino } from 'pino'
import { type Cluster, isClusterError, type Kinds } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import {
  apiVersion,
  childNames,
  declarations,
  desiredHash,
  desiredStateOf,
  labels,
  type ManagedDatabaseStatus,
  systemNamespace,
  tenantNamespace,
} from '../../crds/index.ts'
import { openStore } from '../../embedded/store/index.ts'
import { databaseRoles, seal, sealingKeySecret, secretLocation } from '../../sealing/credentials.ts'
import type { Agents, ResolveService } from '../agents.ts'
import { buildApp } from '../app.ts'
import type { AuditEntry } from '../audit.ts'
import type { AuditRecorder } from '../audit-log/recorder.ts'
import { createCaches, credentialsComponent, startCaches, stopCaches } from '../caches.ts'
import { type ApiConfiguration, apiConfiguration } from '../configuration.ts'
import type { App } from '../context.ts'
import { type ApiMetrics, createApiMetrics } from '../metrics.ts'
import { type InterceptedCluster, intercepted } from './intercept.ts'

export const issuer = 'https://issuer.test'
export const audience = 'espalier'
export const secret = 'a shared secret of more than 32 bytes'
export const sealingKey = randomBytes(32)
export const sizeId = '11111111-1111-8111-8111-111111111111'
export const retiredSizeId = '33333333-3333-8333-8333-333333333333'

export type Claims = { tenant?: unknown; sub?: unknown; iss?: string; aud?: string; exp?: number; nbf?: number }

/** A token of the configured issuer. Given claims replace the default claims; `undefined` omits a claim. */
export function token(claims: Claims = {}, key: string = secret, algorithm = 'HS256'): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  const payload: Record<string, unknown> = {
    iss: issuer,
    aud: audience,
    exp: now + 600,
    tenant: 'acme',
    sub: 'ada',
    ...claims,
  }
  return new SignJWT(payload).setProtectedHeader({ alg: algorithm }).sign(new TextEncoder().encode(key))
}

export const bearer = async (claims: Claims = {}) => ({ authorization: `Bearer ${await token(claims)}` })

export const configurationOf = (changes: Record<string, unknown> = {}): ApiConfiguration =>
  apiConfiguration.parse({
    authentication: { sharedSecret: secret, issuer, audience },
    rateLimits: { tenantPerSecond: 100_000, tenantBurst: 1_000_000, failuresPerSecond: 1000, failureBurst: 100_000 },
    ...changes,
  })

const shape = (connections: number) => ({
  qosClass: 'burstable' as const,
  cpuRequest: '100m',
  cpuLimit: '1',
  memoryRequest: '256Mi',
  memoryLimit: '256Mi',
  storageSize: '1Gi',
  temporaryDataSize: '1Gi',
  sharedMemorySize: '64Mi',
  connections,
  postgresSettings: { work_mem: '4MB' },
})

/** Creates the objects of an installation before its first tenant: a key, a region, and sizes of every status. */
export async function seed(cluster: Cluster): Promise<void> {
  for (const name of [systemNamespace]) {
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
  await cluster.create('Secret', {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: sealingKeySecret, namespace: systemNamespace },
    data: { key: sealingKey.toString('base64') },
  })
  await cluster.create('Region', {
    apiVersion,
    kind: 'Region',
    metadata: { name: 'local' },
    spec: { domain: 'espalier.test', gateway: { host: '127.0.0.1', ports: { first: 15432, last: 15500 } } },
  })
  const sizes = [
    { id: sizeId, name: 'small', version: 1, status: 'deprecated' as const, deprecatedAt: '2025-01-01T00:00:00Z' },
    {
      id: randomUUID(),
      name: 'small',
      version: 2,
      pricing: { priceAmount: 1500, currency: 'eur', billingInterval: 'month' },
    },
    { id: randomUUID(), name: 'large', version: 1 },
    { id: randomUUID(), name: 'old', version: 1, status: 'deprecated' as const, deprecatedAt: '2025-01-01T00:00:00Z' },
    {
      id: retiredSizeId,
      name: 'ancient',
      version: 1,
      status: 'retired' as const,
      deprecatedAt: '2024-01-01T00:00:00Z',
      retiredAt: '2025-01-01T00:00:00Z',
    },
  ]
  for (const size of sizes) {
    await cluster.create('Size', {
      apiVersion,
      kind: 'Size',
      metadata: { name: `${size.name}-v${size.version}` },
      spec: { displayName: size.name, shape: shape(size.name === 'large' ? 200 : 50), ...size },
    })
  }
}

export type Harness = {
  app: App
  cluster: InterceptedCluster
  audit: AuditEntry[]
  /** Stores what GET /audit returns; a test calls `flush`. */
  auditRecorder: AuditRecorder
  metrics: ApiMetrics
  stop: AbortController
  now: { ms: number }
  close: () => Promise<void>
}

/** Makes a tenant ready as the operator does, and does nothing else. */
async function readyTenant(cluster: Cluster, tenant: Kinds['Tenant']): Promise<void> {
  const namespace = tenantNamespace(tenant.spec.tenantId)
  try {
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    await cluster.replaceStatus('Tenant', { ...tenant, status: { phase: 'ready', namespace } })
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists', 'Conflict')) throw error
  }
}

/** Makes every new tenant ready, until it is stopped. */
export async function readyTenants(cluster: Cluster, logger: Logger): Promise<() => Promise<void>> {
  const tenants = createInformer(cluster, 'Tenant', { logger })
  tenants.onChange(({ type, object }) => {
    if (type === 'set' && object.status?.phase !== 'ready') return readyTenant(cluster, object)
  })
  await tenants.start()
  return () => tenants.stop()
}

export type HarnessOptions = {
  configuration?: ApiConfiguration
  /** A harness whose cluster this replica shares. */
  beside?: Harness
  tenantsBecomeReady?: boolean
  /** Resolves the Services of databases. */
  resolve?: ResolveService
  /** Replaces the client of the agents. */
  agents?: Agents
  consoleDirectory?: string
  now?: () => number
  /** Receives every line that the API logs, at any level. */
  log?: (line: string) => void
  /** The API's own cluster client, for example a client that refuses what the API's roles do not allow. */
  rights?: (cluster: Cluster) => Cluster
}

/** Computed once, because it takes longer than opening a store. */
const definitions = Object.values(declarations).map(definitionOf)

async function openCluster(logger: Logger): Promise<{ cluster: Cluster; close: () => Promise<void> }> {
  const store = await openStore({ definitions, logger })
  const cluster = store.connect('test')
  await seed(cluster)
  return { cluster, close: () => store.close() }
}

/** Starts one replica on the in-process store, in memory. */
export async function startHarness(options: HarnessOptions = {}): Promise<Harness> {
  const { log } = options
  const logger = log
    ? pino({ level: 'trace' }, { write: log })
    : pino({ level: process.env.ESPALIER_TEST_LOG ?? 'silent' })
  const opened = options.beside ? { ...options.beside, close: async () => {} } : await openCluster(logger)
  const cluster = intercepted(opened.cluster)
  const own = options.rights?.(cluster) ?? cluster
  const caches = createCaches(own, logger)
  const ready = options.tenantsBecomeReady !== false && options.beside === undefined
  const stopTenants = ready ? await readyTenants(opened.cluster, logger) : async () => {}
  const audit: AuditEntry[] = []
  const metrics = createApiMetrics('test')
  const stop = new AbortController()
  const now = { ms: 0 }
  const { app, context } = await buildApp({
    cluster: own,
    caches,
    configuration: options.configuration ?? configurationOf(),
    audit: { write: entry => audit.push(entry), close: async () => {} },
    metrics,
    logger,
    stopping: stop.signal,
    resolve: options.resolve,
    agents: options.agents,
    consoleDirectory: options.consoleDirectory,
    now: options.now ?? (() => Date.now() + now.ms),
  })
  await startCaches(caches)
  return {
    app,
    cluster,
    audit,
    auditRecorder: context.auditRecorder,
    metrics,
    stop,
    now,
    close: async () => {
      stop.abort()
      // A connection on which the client has sent nothing counts as busy for a minute.
      const timer = setTimeout(() => app.server.closeAllConnections(), 1_000)
      await app.close()
      clearTimeout(timer)
      await stopCaches(caches)
      await stopTenants()
      await opened.close()
    },
  }
}

/** Writes to a database what the operator writes when the database serves: status, endpoint, credentials. */
export async function reconcile(
  cluster: Cluster,
  tenantId: string,
  name: string,
  status: Partial<ManagedDatabaseStatus> = {},
) {
  const namespace = tenantNamespace(tenantId)
  const database = await cluster.get('ManagedDatabase', { namespace, name })
  if (database === undefined) throw new Error(`no database ${name}`)
  const id = database.metadata.labels?.[labels.id] ?? ''
  await giveCredentials(cluster, namespace, id)
  return cluster.replaceStatus('ManagedDatabase', {
    ...database,
    status: {
      phase: 'available',
      appliedHash: desiredHash(desiredStateOf(database)),
      endpoint: { host: '127.0.0.1', port: 15432 },
      storageUsedBytes: 4096,
      ...status,
    },
  })
}

/** Creates passwords for the roles of a database or branch, as the operator generates them. `of` names the owner. */
export async function giveCredentials(cluster: Cluster, namespace: string, id: string, of = ''): Promise<void> {
  const name = childNames.credentials(id)
  if ((await cluster.get('Secret', { namespace, name })) !== undefined) return
  const data = databaseRoles.map(role => {
    const sealed = seal(sealingKey, secretLocation(namespace, name, role), `password-of-${of}${role}`)
    return [role, Buffer.from(sealed).toString('base64')]
  })
  await cluster.create('Secret', {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, labels: { [labels.component]: credentialsComponent } },
    data: Object.fromEntries(data),
  })
}
