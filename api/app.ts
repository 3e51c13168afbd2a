/** Assembles the API: framework settings, the hooks of every request, and the routes. */
import Fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Cluster } from '../cluster/index.ts'
import { originForm } from '../server/origin-form.ts'
import { type Rate, TokenBuckets } from '../server/token-bucket.ts'
import { createIds } from '../values/id.ts'
import { type Agents, createAgents, type ResolveService, resolveByName } from './agents.ts'
import { basePath } from './answers.ts'
import type { AuditDestination } from './audit.ts'
import { createAuditReader } from './audit-log/read.ts'
import { createAuditRecorder } from './audit-log/recorder.ts'
import { addAuditLog } from './audit-log/routes.ts'
import { addBackups } from './backups/routes.ts'
import { addBranches } from './branches/routes.ts'
import type { Caches } from './caches.ts'
import { addPgVersions } from './catalogue/pg-versions.ts'
import { addRegions } from './catalogue/regions.ts'
import { addSizes } from './catalogue/sizes.ts'
import type { ApiConfiguration } from './configuration.ts'
import { addConsole } from './console/routes.ts'
import type { ApiContext, App } from './context.ts'
import { createCredentialsReader, createPasswordOpener } from './databases/credentials.ts'
import { createDatabaseText, createRelatedObjectsEpoch } from './databases/render.ts'
import { addDatabases } from './databases/routes.ts'
import { addEvents } from './events/routes.ts'
import { createIdempotency } from './idempotency/idempotency.ts'
import { addCertificateAuthority, createAuthorityReader } from './installation/certificate-authority.ts'
import { addClientAddress } from './installation/client-ip.ts'
import { addDescription } from './installation/description.ts'
import { addHealth } from './installation/health.ts'
import { addLogin } from './installation/login.ts'
import { addLogs } from './logs/routes.ts'
import type { ApiMetrics } from './metrics.ts'
import { addDocumentationPage, describeRoutes } from './openapi.ts'
import { useAccessLog } from './plugins/access-log.ts'
import { createAudit } from './plugins/audit.ts'
import { useAuthentication } from './plugins/authentication.ts'
import { bodyLimit, useJsonBodies } from './plugins/body.ts'
import { useBodyBudget } from './plugins/body-budget.ts'
import { type Connections, createConnections } from './plugins/connections.ts'
import { useCrossOrigin } from './plugins/cross-origin.ts'
import { sendError, useErrors } from './plugins/errors.ts'
import { refuseOthers } from './plugins/methods.ts'
import { useRateLimit } from './plugins/rate-limit.ts'
import { newRequestId, useRequestId } from './plugins/request-id.ts'
import { useSingleHeaders } from './plugins/single-headers.ts'
import { useTenant } from './plugins/tenant.ts'
import { addQueries } from './queries/routes.ts'
import { createSealingKey } from './sealing-key.ts'
import { createAgentSource } from './series/agent.ts'
import { createPrometheusSource } from './series/prometheus.ts'
import { addMetrics } from './series/routes.ts'
import { createServiceSource } from './series/service.ts'
import { createServiceSecrets } from './services/keys.ts'
import { createSqlSessions } from './sql/open.ts'
import { addSql } from './sql/routes.ts'
import { addTasks } from './tasks/routes.ts'
import { createTenants } from './tenants.ts'
import { createVerifier } from './tokens/verify.ts'
import { addTries } from './try/routes.ts'
import { validatorCompiler } from './validation.ts'

type AppOptions = {
  cluster: Cluster
  /** The caller of `startCaches` fills the caches. */
  caches: Caches
  configuration: ApiConfiguration
  /** If present, the API serves HTTPS with this certificate, otherwise plain HTTP. */
  certificate?: Certificate | undefined
  audit: AuditDestination
  metrics: ApiMetrics
  logger: FastifyBaseLogger
  stopping: AbortSignal
  unready?: (() => string | undefined) | undefined
  /** If absent, the configuration decides. */
  hasPgvector?: ApiContext['hasPgvector'] | undefined
  /** Resolves the Services of databases; if absent, the API uses the cluster's DNS. */
  resolve?: ResolveService | undefined
  /** The directory of the console's files; if absent, the API does not serve the console. */
  consoleDirectory?: string | undefined
  /** For tests: replaces the client of the agents. */
  agents?: Agents | undefined
  now: () => number
}

/** A certificate chain and its private key, PEM. */
export type Certificate = { cert: string; key: string }

type BuiltApp = { app: App; context: ApiContext }

/** The maximum number of tenants, and of addresses with refused credentials, for which the API counts requests. */
const mostBuckets = 10_000

/** Creates the complete API, which does not listen yet. @throws KeyError if the configured key is unusable */
export async function buildApp(options: AppOptions): Promise<BuiltApp> {
  const { configuration, caches, cluster, now, audit } = options
  const connections = createConnections()
  const app = createFramework(options, connections)
  const { auditDropped } = options.metrics
  const auditRecorder = createAuditRecorder({ cluster, logger: app.log, now, dropped: auditDropped })
  const auditLog = createAudit([audit, auditRecorder], now)
  const relatedObjectsEpoch = createRelatedObjectsEpoch(caches)
  const resolve = options.resolve ?? resolveByName
  const agents = options.agents ?? createAgents(cluster, resolve, now)
  const sealingKey = createSealingKey(cluster)
  const context: ApiContext = {
    cluster,
    caches,
    tenants: createTenants(cluster, caches.Tenant, configuration.newTenants),
    pgVersions: configuration.pgVersions,
    hasPgvector: options.hasPgvector ?? (version => configuration.pgvectorVersions.includes(version)),
    highestDepth: configuration.branches.highestDepth,
    databaseText: createDatabaseText(caches, relatedObjectsEpoch),
    relatedObjectsEpoch,
    readCredentials: createCredentialsReader(cluster, now),
    openPassword: createPasswordOpener(sealingKey, app.log),
    serviceSecrets: createServiceSecrets({ cluster, sealingKey, logger: app.log }),
    runsServices: configuration.services,
    samples: configuration.prometheus
      ? createPrometheusSource(configuration.prometheus.url)
      : createAgentSource(agents),
    serviceSamples: createServiceSource(cluster),
    agents,
    resolve,
    readAuthority: createAuthorityReader(cluster, now),
    idempotency: createIdempotency(cluster, now, configuration.idempotency.recordsPerTenant),
    audit: auditLog,
    auditRecorder,
    readAudit: createAuditReader({ cluster, recorder: auditRecorder, logger: app.log, now }),
    stopping: options.stopping,
    unready: options.unready ?? (() => undefined),
    now,
    newId: createIds(now),
  }
  for (const property of ['principal', 'account', 'subjectId']) app.decorateRequest(property, undefined)
  app.setValidatorCompiler(validatorCompiler)
  useJsonBodies(app)
  options.metrics.observe(app)
  useRequestId(app)
  useAccessLog(app)
  useErrors(app)
  useCrossOrigin(app, configuration.cors)
  useSingleHeaders(app)
  connections.watch(app.server, refuseOthers(app))
  await describeRoutes(app)

  const limits = configuration.rateLimits
  const limitOf = (name: string, rate: Rate) => ({ name, rate, buckets: new TokenBuckets(now, rate, mostBuckets) })
  const ofTenants = limitOf('account', { perSecond: limits.tenantPerSecond, burst: limits.tenantBurst })
  const ofFailures = limitOf('failures', { perSecond: limits.failuresPerSecond, burst: limits.failureBurst })
  const verify = createVerifier(configuration.authentication, now)
  await app.register(
    async scope => {
      const api = scope.withTypeProvider<ZodTypeProvider>()
      auditLog.watch(api)
      useAuthentication(api, verify, ofFailures, now)
      useRateLimit(api, ofTenants, context.tenants)
      useTenant(api, context.tenants)
      useBodyBudget(api)
      addDatabases(api, context)
      addBranches(api, context)
      addBackups(api, context)
      addTasks(api, context)
      addAuditLog(api, context)
      addEvents(api, context, options.metrics)
      addLogs(api, context)
      addMetrics(api, context)
      const sessions = createSqlSessions(context, configuration.sql.enabled)
      options.metrics.sql.watch(() => sessions.taken)
      addSql(api, context, { figures: options.metrics.sql, sessions })
      addQueries(api, context, sessions)
      addTries(api, context, configuration.sql.enabled)
      addSizes(api, context)
      addRegions(api, context)
      addPgVersions(api, context)
      addClientAddress(api)
    },
    { prefix: basePath },
  )
  await app.register(
    async scope => {
      const open = scope.withTypeProvider<ZodTypeProvider>()
      addDescription(open)
      addCertificateAuthority(open, context)
      addLogin(open, configuration)
    },
    { prefix: basePath },
  )
  addHealth(app, context)
  const hasConsole = await addConsole(app, { directory: options.consoleDirectory, configuration, now })
  app.get('/', { schema: { hide: true } }, async (_request, reply) =>
    reply.redirect((await hasConsole()) ? '/console/' : '/docs'),
  )
  await addDocumentationPage(app)
  return { app, context }
}

function createFramework({ configuration, certificate, logger }: AppOptions, connections: Connections): App {
  // `useSingleHeaders` refuses requests without a Host header, with the usual error body.
  const http = { requireHostHeader: false }
  // An https.Server has all of an http.Server's methods; Fastify's types treat both as the same here.
  const server: object = certificate === undefined ? { http } : { https: { ...certificate, ...http } }
  return Fastify({
    ...server,
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: newRequestId,
    rewriteUrl: ({ url = '/' }) => originForm(url),
    requestIdHeader: false,
    bodyLimit,
    trustProxy: configuration.trustedProxies.length > 0 ? configuration.trustedProxies : false,
    // While the API stops, it still answers requests on open connections.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    requestTimeout: 60_000,
    frameworkErrors: sendError,
    clientErrorHandler: connections.answerClientError,
  }).withTypeProvider<ZodTypeProvider>()
}
