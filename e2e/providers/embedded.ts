/** An embedded installation in this process, so that a test can access objects behind the API like `kubectl`. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { childNames, tenantNamespace } from '../../crds/index.ts'
import { gatewayHost } from '../../embedded/catalogue.ts'
import { startInstallation } from '../../embedded/installation.ts'
import { findFreeRange } from '../../embedded/ports.ts'
import { createPostgresImages, withServicesImage } from '../../embedded/runtime/index.ts'
import { pathsOf, readSettings } from '../../embedded/settings.ts'
import { mintToken } from '../../embedded/tokens.ts'
import { postgresDirectory } from '../../operator/postgres/testing/directory.ts'
import { installationHome } from '../../operator/postgres/testing/install.ts'
import { createApiClient } from '../client.ts'
import { processTree } from '../process.ts'
import type { Provider } from './provider.ts'

/** `home` is the directory with all its data. */
export type EmbeddedProvider = Provider & { home: string }

/**
 * `ports`: the maximum number of databases. `prepare` is called with the empty home directory. `ownPostgres`: Postgres
 * is installed in the home directory, with its extensions. `variables`: additional environment variables.
 */
export async function startEmbedded({
  ports = 20,
  prepare = async (_home: string) => {},
  ownPostgres = false,
  variables = {},
} = {}): Promise<EmbeddedProvider> {
  const home = await mkdtemp(join(postgresDirectory, 'espalier-e2e-'))
  await prepare(home)
  const range = await findFreeRange(gatewayHost, ports + 4)
  const environment = {
    ESPALIER_HOME: home,
    ESPALIER_API_PORT: String(range.first),
    ESPALIER_HTTPS_PORT: String(range.first + 1),
    ESPALIER_ARCHIVE_PORT: String(range.first + 2),
    ESPALIER_PORTS: `${range.first + 3}-${range.last}`,
    ESPALIER_POOL: process.env.ESPALIER_POOL ?? 'off',
    ...variables,
  }
  const logger = pino({ level: process.env.ESPALIER_LOG ?? 'error' }, pino.destination(2))
  const settings = readSettings(environment)
  const shared = { home: installationHome(settings.runAs), owner: settings.runAs }
  const images = withServicesImage(createPostgresImages(shared), { ...shared, names: pathsOf(home).serviceNames })
  const installation = await startInstallation(settings, logger, ownPostgres ? undefined : images)
  const cluster = installation.store.connect('kubectl')
  const token = (tenant = 'e2e', claims = {}) => mintToken(home, { tenant, subject: 'e2e', expiresIn: 3600, claims })

  return {
    api: installation.api,
    home,
    cluster,
    clientAddress: '127.0.0.1',
    namespace: (tenant = 'e2e') => tenantNamespace(tenant),
    client: async tenant => createApiClient(installation.api, await token(tenant)),
    token,
    /** Finds a pod's processes by the directory of its volume, which is part of their command. */
    async postmaster(namespace, id) {
      const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: childNames.claim(id, 1) })
      const volume = await cluster.get('PersistentVolume', { name: claim?.spec?.volumeName ?? '' })
      const directory = volume?.spec?.csi?.volumeHandle ?? 'none'
      for (const pid of await processTree(process.pid)) {
        const command = await readFile(join('/proc', String(pid), 'cmdline'), 'utf8').catch(() => '')
        if (!command.includes('postgres') || !command.includes(directory)) continue
        return { id: String(pid), kill: async () => void process.kill(pid, 'SIGKILL') }
      }
      throw new Error('no postmaster')
    },
    async stop() {
      await installation.stop()
      await rm(home, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
