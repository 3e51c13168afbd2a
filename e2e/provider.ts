/**
 * What the end-to-end suite needs of an installation, whatever it runs on. `embedded` starts one in this process, so
 * that a test can reach behind the API as `kubectl` would.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Cluster } from '../cluster/index.ts'
import { gatewayHost } from '../embedded/catalog.ts'
import { startInstallation } from '../embedded/installation.ts'
import { findFreeRange } from '../embedded/ports.ts'
import { readSettings } from '../embedded/settings.ts'
import { mintToken } from '../embedded/tokens.ts'
import { type ApiClient, createApiClient } from './client.ts'

export type Provider = {
  api: string
  home: string
  /** The cluster as an administrator has it. */
  cluster: Cluster
  /** A client with a fresh token of this tenant. */
  client(tenant?: string): Promise<ApiClient>
  token(tenant: string, claims?: Record<string, unknown>): Promise<string>
  stop(): Promise<void>
}

/** `ports`: how many databases there can be. */
export async function startEmbedded(ports = 20): Promise<Provider> {
  const home = await mkdtemp(join(tmpdir(), 'espalier-e2e-'))
  const range = await findFreeRange(gatewayHost, ports + 2)
  const environment = {
    ESPALIER_HOME: home,
    ESPALIER_API_PORT: String(range.first),
    ESPALIER_PORTS: `${range.first + 1}-${range.last}`,
  }
  const logger = pino({ level: process.env.ESPALIER_LOG ?? 'error' }, pino.destination(2))
  const installation = await startInstallation(readSettings(environment), logger)
  const token = (tenant: string, claims = {}) => mintToken(home, { tenant, subject: 'e2e', expiresIn: 3600, claims })
  return {
    api: installation.api,
    home,
    cluster: installation.store.connect('kubectl'),
    client: async (tenant = 'e2e') => createApiClient(installation.api, await token(tenant)),
    token,
    async stop() {
      await installation.stop()
      await rm(home, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
