/** The functions that the end-to-end suite needs from an installation, independent of its platform. */
import type { Cluster } from '../../cluster/index.ts'
import type { ApiClient } from '../client.ts'

export type Provider = {
  /** The base of the API's URLs. */
  api: string
  /** The cluster with the permissions of its administrator. */
  cluster: Cluster
  /** The IPv4 source address of this process's connections, as the gateway sees it. */
  clientAddress: string
  /**
   * A tenant's namespace. Tenants have names that are unique to the test: on a shared cluster, each file has its own
   * tenants.
   */
  namespace(tenant?: string): string
  /** A client with a new token of this tenant. */
  client(tenant?: string): Promise<ApiClient>
  token(tenant?: string, claims?: Record<string, unknown>): Promise<string>
  /** The first process of the Postgres that serves a database, for `kill -9` on its machine. */
  postmaster(namespace: string, databaseId: string): Promise<Postmaster>
  stop(): Promise<void>
}

/** `id` changes when Postgres was restarted. */
type Postmaster = { id: string; kill(): Promise<void> }
