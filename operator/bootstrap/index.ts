/**
 * Makes what every installation needs before its first database: the sealing key and the certificate authority. They
 * are made only while the installation holds nothing yet; over existing data a missing one has to be put back, since a
 * new sealing key opens no password and a new authority is trusted by no Postgres.
 */
import { randomBytes } from 'node:crypto'
import type { Cluster, Draft } from '../../cluster/index.ts'
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

/** Kinds of which a single object means that something may have been sealed or signed already. */
const traces = ['Tenant', 'ManagedDatabase', 'Branch', 'Backup'] as const

/** Names of the Secrets that were made, and of those that are gone and cannot be. */
type KeysOutcome = { made: string[]; missing: string[] }

/** Looks first, and two at once cannot both make one: whoever comes second keeps what is there. */
export async function ensureKeys(cluster: Cluster): Promise<KeysOutcome> {
  const found = await Promise.all(
    [...makers].map(async ([name, make]) => ({
      name,
      make,
      isThere: (await cluster.get('Secret', { namespace: systemNamespace, name })) !== undefined,
    })),
  )
  const absent = found.filter(({ isThere }) => !isThere)
  const names = absent.map(({ name }) => name)
  if (absent.length === 0) return { made: [], missing: [] }
  const lists = await Promise.all(traces.map(kind => cluster.list(kind, { limit: 1 })))
  if (lists.some(({ items }) => items.length > 0)) return { made: [], missing: names }
  for (const { make } of absent) await createIfAbsent(cluster, 'Secret', make())
  return { made: names, missing: [] }
}
