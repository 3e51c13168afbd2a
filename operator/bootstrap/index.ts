/**
 * Creates what every installation needs before its first database: the sealing key and the certificate authority.
 * Creates them only if the cluster has nothing of an earlier installation. A new sealing key cannot open that
 * installation's passwords, and its databases do not trust a new authority.
 */
import { randomBytes } from 'node:crypto'
import { type Cluster, type Draft, type KindName, KindNotServedError } from '../../cluster/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { authoritySecret, sealingKeySecret } from '../../sealing/credentials.ts'
import { createIfAbsent } from '../objects/create.ts'
import { createAuthority } from '../pki/index.ts'

const secret = (name: string, values: Record<string, string | Uint8Array>): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  immutable: true,
  metadata: { name, namespace: systemNamespace, labels: { [labels.managedBy]: managedByEspalier } },
  data: Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')])),
})

const makers = new Map<string, () => Draft<'Secret'>>([
  [sealingKeySecret, () => secret(sealingKeySecret, { key: randomBytes(32) })],
  [
    authoritySecret,
    () => {
      const { cert, key } = createAuthority()
      return secret(authoritySecret, { 'tls.crt': cert, 'tls.key': key })
    },
  ],
])

/** If an object of these kinds exists, a password may be sealed, or a certificate issued. */
const resources = ['Tenant', 'ManagedDatabase', 'Branch', 'Backup', 'Restore'] as const
/**
 * The same applies to these kinds with a database's label. They remain if a user deleted the resources, or are restored
 * before the resources.
 */
const children = ['Secret', 'PersistentVolumeClaim', 'PersistentVolume', 'VolumeSnapshot'] as const

/** `missing`: absent keys that cannot be created, because of `found`. `found`: the first object of each kind. */
type KeysOutcome = { made: string[]; missing: string[]; found: string[] }

async function firstOf(cluster: Cluster, kind: KindName): Promise<string[]> {
  const isResource = resources.some(resource => resource === kind)
  try {
    const { items } = await cluster.list(kind, {
      limit: 1,
      ...(!isResource && { labels: { [labels.database]: true } }),
    })
    return items.map(({ metadata: { namespace, name } }) => `${kind} ${namespace ? `${namespace}/` : ''}${name}`)
  } catch (error) {
    if (error instanceof KindNotServedError) return []
    throw error
  }
}

/** Creates absent keys. Two concurrent callers get the same keys. Creates none over an earlier installation. */
export async function ensureKeys(cluster: Cluster): Promise<KeysOutcome> {
  const keys = await Promise.all(
    [...makers].map(async ([name, make]) => ({
      name,
      make,
      isThere: (await cluster.get('Secret', { namespace: systemNamespace, name })) !== undefined,
    })),
  )
  const absent = keys.filter(({ isThere }) => !isThere)
  const names = absent.map(({ name }) => name)
  if (absent.length === 0) return { made: [], missing: [], found: [] }
  const found = (await Promise.all([...resources, ...children].map(kind => firstOf(cluster, kind)))).flat()
  if (found.length > 0) return { made: [], missing: names, found }
  for (const { make } of absent) await createIfAbsent(cluster, 'Secret', make())
  return { made: names, missing: [], found: [] }
}

/** The message if keys are missing: why, and what to do. */
export const missingKeys = ({ missing, found }: KeysOutcome): string =>
  `${missing.join(' and ')}: missing from the Secrets of ${systemNamespace}, but the cluster contains objects of an earlier installation: ${found.join(', ')}. New keys can neither open its passwords nor reach its databases. Create the Secrets from your backup of the keys, then run this again. If nothing of that installation is needed, delete all objects of espalier.dev and all with the label ${labels.database} first`
