/** What the end-to-end suite needs of an installation, whatever it runs on. */
// @ts-nocheck

import type { Cluster } from '../../cluster/index.ts'
import type { ApiClient } from '../client.ts'

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
