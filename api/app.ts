/** Puts the API together: the framework's settings, what every request goes through, and the routes. */
import Fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Cluster } from '../cluster/index.ts'
import { originForm } from '../server/origin-form.ts'
import { type Rate, TokenBuckets } from '../server/token-bucket.ts'
import { createIds } from '../values/id.ts'
import { type Agents, createAgents, type ResolveService, resolveByName } from './agents.ts'
import { basePath } from './answers.ts'
import type { AuditDestination } from './audit.ts'
import { addBackups } from './backups/routes.ts'
import { addBranches } from './branches/routes.ts'
import type { Caches } from './caches.ts'
import { addPgVersions } from './catalogue/pg-versions.ts'
import { addRegions } from './catalogue/regions.ts'
import { addSizes } from './catalogue/sizes.ts'
import type { ApiConfiguration } from './configuration.ts'
import type { ApiContext, App } from './context.ts'
import { createCredentialsReader, createPasswordOpener } from './databases/credentials.ts'
import { createDatabaseText, createSurroundingsEpoch } from './databases/render.ts'
import { addDatabases } from './databases/routes.ts'
import { createIdempotency } from './idempotency/claims.ts'
import { addCertificateAuthority } from './installation/certificate-authority.ts'
import { addClientAddress } from './installation/client-ip.ts'
import { addDescription } from './installation/description.ts'
import { addHealth } from './installation/health.ts'
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
import { createSealingKey } from './sealing-key.ts'
import { createAgentSource } from './series/agent.ts'
import { createPrometheusSource } from './series/prometheus.ts'
import { addMetrics } from './series/routes.ts'
import { createServiceSecrets } from './services/keys.ts'
import { addTasks } from './tasks/routes.ts'
import { createTenants } from './tenants.ts'
import { createVerifier } from './tokens/verify.ts'
import { validatorCompiler } from './validation.ts'

type AppOptions = {
  cluster: Cluster
  /** Filled by whoever made them: `startCaches`. */
  caches: Caches
  configuration: ApiConfiguration
  /** Serves HTTPS with it; absent: plain HTTP. */
  certificate?: Certificate | undefined
  audit: AuditDestination
  metrics: ApiMetrics
  logger: FastifyBaseLogger
  stopping: AbortSignal
  unready?: (() => string | undefined) | undefined
  /** Absent: as the configuration says. */
  hasPgvector?: ApiContext['hasPgvector'] | undefined
  /** How the Services of databases are found; absent: by the cluster's DNS. */
  resolve?: ResolveService | undefined
  /** For tests: in place of what speaks to agents. */
  agents?: Agents | undefined
  now: () => number
}

/** A certificate chain and its private key, PEM. */
export type Certificate = { cert: string; key: string }

type BuiltApp = { app: App; context: ApiContext }

/** Tenants, and addresses whose credentials were refused, of which the API remembers how much they have asked. */
const mostBuckets = 10_000

/** The whole API, not listening yet. @throws KeyError where the configured key is unusable */
export async function buildApp(options: AppOptions): Promise<BuiltApp> {
  const { configuration, caches, cluster, now, audit } = options
  const auditLog = createAudit(audit, now)
  const connections = createConnections()
  const app = createFramework(options, connections)
  const surroundingsEpoch = createSurroundingsEpoch(caches)
  const agents = options.agents ?? createAgents(cluster, options.resolve ?? resolveByName, now)
  const sealingKey = createSealingKey(cluster)
  const context: ApiContext = {
    cluster,
    caches,
    tenants: createTenants(cluster, caches.Tenant, configuration.newTenants),
    pgVersions: configuration.pgVersions,
    hasPgvector: options.hasPgvector ?? (version => configuration.pgvectorVersions.includes(version)),
    highestDepth: configuration.branches.highestDepth,
    databaseText: createDatabaseText(caches, surroundingsEpoch),
    surroundingsEpoch,
    readCredentials: createCredentialsReader(cluster, now),
    openPassword: createPasswordOpener(sealingKey, app.log),
    serviceSecrets: createServiceSecrets({ cluster, sealingKey, logger: app.log }),
    runsServices: configuration.services,
    samples: configuration.prometheus
      ? createPrometheusSource(configuration.prometheus.url)
      : createAgentSource(agents),
    agents,
    idempotency: createIdempotency(cluster, now, configuration.idempotency.recordsPerTenant),
    audit: auditLog,
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
      addLogs(api, context)
      addMetrics(api, context)
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
    },
    { prefix: basePath },
  )
  addHealth(app, context)
  app.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/docs'))
  await addDocumentationPage(app)
  return { app, context }
}

function createFramework({ configuration, certificate, logger }: AppOptions, connections: Connections): App {
  // `useSingleHeaders` refuses requests without one, in the shape of every error.
  const http = { requireHostHeader: false }
  // An https.Server does all that an http.Server does; to the types of Fastify both are the same here.
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
    // A stopping API answers what still reaches it on an open connection.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    requestTimeout: 60_000,
    frameworkErrors: sendError,
    clientErrorHandler: connections.answerClientError,
  }).withTypeProvider<ZodTypeProvider>()
}
