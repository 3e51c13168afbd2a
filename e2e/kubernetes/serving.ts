/** Setup of most files here: a separate tenant on the cluster, and one serving database. */
import { expect } from 'vitest'
import { type ApiClient, type Database, openTo } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'

export const minutes = (count: number): number => count * 60_000

export type Serving = {
  provider: KindProvider
  api: ApiClient
  /** The namespace of the tenant. */
  namespace: string
  /** A database with Postgres 17 that admits this process. It is available when the tests begin. */
  database: Database
  /** Removes the database. */
  stop(): Promise<void>
}

export async function startServing(tenant: string, name: string): Promise<Serving> {
  const provider = await startKind()
  try {
    const api = await provider.client(tenant)
    const rules = openTo(provider.clientAddress)
    const { body: database } = await api.create({ name, pg_version: '17', ip_allowlist: rules })
    const stop = async () => {
      await api.remove(database.id)
      await provider.stop()
    }
    expect(database.status).toBe('available')
    return { provider, api, namespace: provider.namespace(tenant), database, stop }
  } catch (error) {
    await provider.stop()
    throw error
  }
}
