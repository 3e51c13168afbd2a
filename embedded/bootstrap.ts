/**
 * Fills an empty store with an installation: namespaces, keys, the region and the sizes. If data exist, a missing key
 * is never replaced; the operator reports it.
 */
import type { Cluster, Draft } from '../cluster/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../crds/index.ts'
import { ensureKeys } from '../operator/bootstrap/index.ts'
import { readTrust } from '../operator/keys.ts'
import type { Trust } from '../operator/pki/trust.ts'
import { authoritySecret, authorityStateSecret, nextAuthoritySecret } from '../sealing/credentials.ts'
import { domainResolves, regionDraft, sizeDrafts } from './catalogue.ts'
import { EmbeddedError } from './errors.ts'
import type { PortRange } from './settings.ts'

type Ports = { databasePorts: PortRange; httpsPort: number }

const namespace = (name: string): Draft<'Namespace'> => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: { [labels.managedBy]: managedByEspalier } },
})

/** Each step checks first or is idempotent, so the next start completes an interrupted run. */
export async function bootstrap(cluster: Cluster, ports: Ports): Promise<void> {
  await Promise.all([
    cluster.apply('Namespace', namespace('default')),
    cluster.apply('Namespace', namespace(systemNamespace)),
  ])
  await ensureKeys(cluster)
  await Promise.all([
    cluster.apply('Region', regionDraft({ ...ports, domainResolves: await domainResolves() })),
    ...sizeDrafts.map(draft => cluster.apply('Size', draft)),
  ])
}

/** The current signing authority, for certificates of the installation's own servers. */
export async function readAuthority(cluster: Cluster): Promise<Trust> {
  const stored = new Map(
    await Promise.all(
      [authoritySecret, nextAuthoritySecret, authorityStateSecret].map(
        async name => [name, await cluster.get('Secret', { namespace: systemNamespace, name })] as const,
      ),
    ),
  )
  const signing = readTrust({ get: ({ name }) => stored.get(name) })
  if (signing === undefined) {
    throw new EmbeddedError(
      `the Secret ${systemNamespace}/${authoritySecret} is missing: it cannot be created again over existing data; put it back from a backup of the installation`,
    )
  }
  return signing
}
