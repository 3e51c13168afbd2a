/** Dependencies that all resources share. `buildApp` creates each of them once. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Cluster } from '../cluster/index.ts'
import type { PgVersion } from '../crds/index.ts'
import type { IdSource } from '../values/id.ts'
import type { Agents, ResolveService } from './agents.ts'
import type { Audit } from './audit.ts'
import type { ReadAudit } from './audit-log/read.ts'
import type { AuditRecorder } from './audit-log/recorder.ts'
import type { Caches } from './caches.ts'
import type { OpenPassword, ReadCredentials } from './databases/credentials.ts'
import type { DatabaseText } from './databases/render.ts'
import type { Idempotency } from './idempotency/idempotency.ts'
import type { ServiceSource } from './series/service.ts'
import type { SampleSource } from './series/source.ts'
import type { ServiceSecrets } from './services/keys.ts'
import type { Tenants } from './tenants.ts'

export type ApiContext = {
  cluster: Cluster
  caches: Caches
  tenants: Tenants
  /** The available major versions, newest first. */
  pgVersions: readonly PgVersion[]
  /** Whether a database of a major version can use pgvector. */
  hasPgvector: (version: PgVersion) => boolean | Promise<boolean>
  /** The maximum depth of branches. */
  highestDepth: number
  databaseText: DatabaseText
  /** A number that changes with the objects that databases are rendered with: see `createRelatedObjectsEpoch`. */
  relatedObjectsEpoch: () => number
  readCredentials: ReadCredentials
  openPassword: OpenPassword
  serviceSecrets: ServiceSecrets
  /** Whether the installation runs services. */
  runsServices: boolean
  /** Metrics of databases. */
  samples: SampleSource
  /** Metrics of services. */
  serviceSamples: ServiceSource
  agents: Agents
  /** The addresses of the Services of databases. */
  resolve: ResolveService
  /** The certificates of the installation's authority as PEM; undefined: there is none yet. */
  readAuthority: () => Promise<string | undefined>
  idempotency: Idempotency
  audit: Audit
  /** Stores audit entries for clients. */
  auditRecorder: AuditRecorder
  readAudit: ReadAudit
  /** Aborts when the API starts to stop, so that long polls answer immediately. */
  stopping: AbortSignal
  /** Why the API can serve no request, in addition to the caches. */
  unready: () => string | undefined
  now: () => number
  /** Generates the id of a new object. */
  newId: IdSource
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypeProvider>
