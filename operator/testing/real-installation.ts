/** An installation without fakes: the process runtime, real Postgres servers and the real gateway. */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { findFreeRange } from '../../embedded/ports.ts'
import { createPostgresImages, startRuntime } from '../../embedded/runtime/index.ts'
import { startGateway } from '../../gateway/index.ts'
import { issueServerCertificate } from '../pki/index.ts'
import { postgresDirectory } from '../postgres/testing/directory.ts'
import { installationHome, postgresUser } from '../postgres/testing/install.ts'
import { type Installation, openInstallation, silent } from './installation.ts'

const host = '127.0.0.1'

/** `databases`: how many ports the gateway has. */
export async function openRealInstallation(databases: number): Promise<Installation> {
  const directory = await mkdtemp(join(postgresDirectory, 'espalier-operator-'))
  const ports = await findFreeRange(host, databases)
  const installation = await openInstallation({ fakes: false, ports })
  const { store, authority } = installation
  const runtime = await startRuntime({
    cluster: store.connect('runtime'),
    directory,
    images: createPostgresImages({ home: installationHome(postgresUser), owner: postgresUser }),
    runAs: postgresUser,
    logger: silent,
  })
  store.setLogSource((pod, options) => runtime.logs(pod, options))
  const gateway = await startGateway({
    cluster: store.connect('gateway'),
    identity: 'real',
    listenHost: host,
    certificate: issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: [host] }),
    resolve: target => runtime.resolve(target),
    logger: silent,
  })
  return {
    ...installation,
    close: async () => {
      await gateway.stop({ drainMs: 0 })
      await runtime.stop()
      await installation.close()
      await rm(directory, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
