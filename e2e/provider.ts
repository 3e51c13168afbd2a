/**
 * What the end-to-end suite needs of an installation, whatever it runs on: `ESPALIER_E2E_PROVIDER` is `embedded` (the
 * default: one of its own for every file of tests) or `kind` (the cluster that `make kind-up` made, shared by all).
 */
import { z } from 'zod'
import type { Cluster } from '../cluster/index.ts'
import { pgVersions } from '../crds/index.ts'
import type { ApiClient } from './client.ts'

export type Provider = {
  /** The base of the API's URLs. */
  api: string
  /** The cluster as an administrator has it. */
  cluster: Cluster
  /** The IPv4 address that the gateway sees this process's connections come from. */
  clientAddress: string
  /** A tenant's namespace. Tenants are named for the test alone: on a shared cluster each file has its own. */
  namespace(tenant?: string): string
  /** A client with a fresh token of this tenant. */
  client(tenant?: string): Promise<ApiClient>
  token(tenant?: string, claims?: Record<string, unknown>): Promise<string>
  /** The first process of the Postgres that serves a database, as `kill -9` on its machine reaches it. */
  postmaster(namespace: string, databaseId: string): Promise<Postmaster>
  stop(): Promise<void>
}

/** `id` changes when Postgres was started anew. */
type Postmaster = { id: string; kill(): Promise<void> }

const providerName = z
  .enum(['embedded', 'kind'], 'ESPALIER_E2E_PROVIDER must be embedded or kind')
  .default('embedded')
  .parse(process.env.ESPALIER_E2E_PROVIDER || undefined)

/** The major versions that there are images of: not every machine can build all. */
export const testedVersions = z
  .array(z.enum(pgVersions))
  .min(1)
  .parse(process.env.ESPALIER_E2E_PG_VERSIONS?.split(',') ?? pgVersions)

export async function startProvider(): Promise<Provider> {
  // Each brings what the other must not need: a cluster, or Postgres on this machine.
  if (providerName === 'kind') return (await import('./providers/kind.ts')).startKind()
  return (await import('./providers/embedded.ts')).startEmbedded()
}
