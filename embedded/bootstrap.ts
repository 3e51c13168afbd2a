/**
 * Makes an empty store into an installation: namespaces, keys, the region and the sizes. Keys are made only while the
 * installation holds nothing yet; over existing data a missing one is the operator's to report, never to be replaced.
 */
import { randomBytes } from 'node:crypto'
import type { Cluster, Draft } from '../cluster/index.ts'
import { authoritySecret, labels, managedByEspalier, sealingKeySecret, systemNamespace } from '../crds/index.ts'
import { type Authority, createAuthority } from '../operator/pki/index.ts'
import { regionDraft, sizeDrafts } from './catalog.ts'
import { EmbeddedError } from './errors.ts'
import type { PortRange } from './settings.ts'

const namespace = (name: string): Draft<'Namespace'> => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: { [labels.managedBy]: managedByEspalier } },
})

const secret = (name: string, values: Record<string, string | Uint8Array>): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  immutable: true,
  metadata: { name, namespace: systemNamespace, labels: { [labels.managedBy]: managedByEspalier } },
  data: Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')])),
})

async function ensureKeys(cluster: Cluster): Promise<void> {
  const key = (name: string) => ({ namespace: systemNamespace, name })
  const [sealing, authority, tenants] = await Promise.all([
    cluster.get('Secret', key(sealingKeySecret)),
    cluster.get('Secret', key(authoritySecret)),
    cluster.list('Tenant', { limit: 1 }),
  ])
  if (tenants.items.length > 0) return
  if (sealing === undefined) await cluster.create('Secret', secret(sealingKeySecret, { key: randomBytes(32) }))
  if (authority === undefined) {
    const { cert, key: privateKey } = await createAuthority()
    await cluster.create('Secret', secret(authoritySecret, { 'tls.crt': cert, 'tls.key': privateKey }))
  }
}

/** Every step looks first, or is the same however often it is done: a start cut short is finished by the next. */
export async function bootstrap(cluster: Cluster, databasePorts: PortRange): Promise<void> {
  await Promise.all([
    cluster.apply('Namespace', namespace('default')),
    cluster.apply('Namespace', namespace(systemNamespace)),
  ])
  await ensureKeys(cluster)
  await Promise.all([
    cluster.apply('Region', regionDraft(databasePorts)),
    ...sizeDrafts.map(draft => cluster.apply('Size', draft)),
  ])
}

/** The installation's certificate authority, for the gateway's own certificate. */
export async function readAuthority(cluster: Cluster): Promise<Authority> {
  const stored = await cluster.get('Secret', { namespace: systemNamespace, name: authoritySecret })
  const text = (key: string) => Buffer.from(stored?.data?.[key] ?? '', 'base64').toString('utf8')
  if (stored === undefined) {
    throw new EmbeddedError(
      `the Secret ${systemNamespace}/${authoritySecret} is gone: it cannot be made again over existing data; put it back from a backup of the installation`,
    )
  }
  return { cert: text('tls.crt'), key: text('tls.key') }
}
