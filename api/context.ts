/** What every resource works with: one of each, made once by `buildApp`. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { Cluster } from '../cluster/index.ts'
import type { PgVersion } from '../crds/index.ts'
import type { IdSource } from '../values/id.ts'
import type { Agents } from './agents.ts'
import type { Audit } from './audit.ts'
import type { Caches } from './caches.ts'
import type { OpenPassword, ReadCredentials } from './databases/credentials.ts'
import type { DatabaseText } from './databases/render.ts'
import type { Idempotency } from './idempotency/claims.ts'
import type { SampleSource } from './series/source.ts'
import type { ServiceSecrets } from './services/keys.ts'
import type { Tenants } from './tenants.ts'

export type ApiContext = {
  cluster: Cluster
  caches: Caches
  tenants: Tenants
  /** The major versions on offer, newest first. */
  pgVersions: readonly PgVersion[]
  /** Whether a database of a major version can have pgvector. */
  hasPgvector: (version: PgVersion) => boolean | Promise<boolean>
  /** How deep branches of branches go. */
  highestDepth: number
  databaseText: DatabaseText
  /** Changes with what surrounds databases: see `createSurroundingsEpoch`. */
  surroundingsEpoch: () => number
  readCredentials: ReadCredentials
  openPassword: OpenPassword
  serviceSecrets: ServiceSecrets
  /** Whether the installation runs services. */
  runsServices: boolean
  /** What was measured of databases. */
  samples: SampleSource
  agents: Agents
  idempotency: Idempotency
  audit: Audit
  /** Aborted when the API begins to stop: long polls answer at once. */
  stopping: AbortSignal
  /** Why no request can be served, beside the caches. */
  unready: () => string | undefined
  now: () => number
  /** The id of a new object. */
  newId: IdSource
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypeProvider>
