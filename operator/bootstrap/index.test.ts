import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import { apiVersion, declarations, labels, systemNamespace, tenantName } from '../../crds/index.ts'
import { openStore, type Store } from '../../embedded/store/index.ts'
import { authoritySecret, sealingKeySecret } from '../../sealing/credentials.ts'
import { isIssuedBy, issueServerCertificate } from '../pki/index.ts'
import { ensureKeys, missingKeys } from './index.ts'

let store: Store
let cluster: Cluster
const both = [sealingKeySecret, authoritySecret]

beforeEach(async () => {
  const definitions = Object.values(declarations).map(definitionOf)
  store = await openStore({ definitions, logger: pino({ level: 'silent' }) })
  cluster = store.connect('test')
  for (const name of [systemNamespace, 'elsewhere'])
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
})
afterEach(() => store.close())

const secret = (name: string) => cluster.get('Secret', { namespace: systemNamespace, name })
const value = async (name: string, key: string) => Buffer.from((await secret(name))?.data?.[key] ?? '', 'base64')

const ofDatabase = (name: string) => ({ namespace: 'elsewhere', name, labels: { [labels.database]: 'db-1' } })

const traces: [string, string, () => Promise<unknown>][] = [
  [
    'a tenant',
    `Tenant ${tenantName('acme')}`,
    () =>
      cluster.create('Tenant', {
        apiVersion,
        kind: 'Tenant',
        metadata: { name: tenantName('acme') },
        spec: { tenantId: 'acme' },
      }),
  ],
  [
    'a database applied by hand',
    'ManagedDatabase elsewhere/orders',
    () =>
      cluster.create('ManagedDatabase', {
        apiVersion,
        kind: 'ManagedDatabase',
        metadata: { namespace: 'elsewhere', name: 'orders' },
        spec: { region: 'here', size: { name: 'small', version: 1 }, pgVersion: '18' },
      }),
  ],
  [
    'the credentials of a deleted database',
    'Secret elsewhere/db-1-credentials',
    () => cluster.create('Secret', { apiVersion: 'v1', kind: 'Secret', metadata: ofDatabase('db-1-credentials') }),
  ],
  [
    'the claim of a deleted database',
    'PersistentVolumeClaim elsewhere/db-1-data-1',
    () =>
      cluster.create('PersistentVolumeClaim', {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: ofDatabase('db-1-data-1'),
        spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
      }),
  ],
  [
    'a retained volume of a deleted database',
    'PersistentVolume pvc-1',
    () => {
      const { namespace: _, ...metadata } = ofDatabase('pvc-1')
      return cluster.create('PersistentVolume', {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata,
        spec: { accessModes: ['ReadWriteOncePod'], capacity: { storage: '1Gi' }, hostPath: { path: '/data' } },
      })
    },
  ],
  [
    'the snapshot of a deleted database',
    'VolumeSnapshot elsewhere/db-1-backup',
    () =>
      cluster.create('VolumeSnapshot', {
        apiVersion: 'snapshot.storage.k8s.io/v1',
        kind: 'VolumeSnapshot',
        metadata: ofDatabase('db-1-backup'),
        spec: { source: { persistentVolumeClaimName: 'db-1-data-1' } },
      }),
  ],
]

describe('the keys of an installation', () => {
  test('are created once and are valid', async () => {
    expect(await ensureKeys(cluster)).toEqual({ made: both, missing: [], found: [] })
    expect(await value(sealingKeySecret, 'key')).toHaveLength(32)
    const [cert, key] = await Promise.all(['tls.crt', 'tls.key'].map(name => value(authoritySecret, name)))
    const authority = { cert: String(cert), key: String(key) }
    expect(isIssuedBy(authority, issueServerCertificate(authority, { dnsNames: ['a.test'] }))).toBe(true)
    const uids = await Promise.all(both.map(async name => (await secret(name))?.metadata.uid))
    expect(await ensureKeys(cluster)).toEqual({ made: [], missing: [], found: [] })
    expect(await Promise.all(both.map(async name => (await secret(name))?.metadata.uid))).toEqual(uids)
  })

  test('are the same for two bootstraps that start at the same time', async () => {
    await Promise.all([ensureKeys(cluster), ensureKeys(cluster)])
    expect(await ensureKeys(cluster)).toEqual({ made: [], missing: [], found: [] })
  })

  test('left incomplete by an interrupted bootstrap are completed', async () => {
    await ensureKeys(cluster)
    const before = await value(sealingKeySecret, 'key')
    await cluster.delete('Secret', { namespace: systemNamespace, name: authoritySecret })
    expect(await ensureKeys(cluster)).toEqual({ made: [authoritySecret], missing: [], found: [] })
    expect(await value(sealingKeySecret, 'key')).toEqual(before)
  })

  test.each(traces)('are never created again if there is %s', async (_, found, make) => {
    await ensureKeys(cluster)
    await make()
    for (const name of both) await cluster.delete('Secret', { namespace: systemNamespace, name })
    const outcome = await ensureKeys(cluster)
    expect(outcome).toEqual({ made: [], missing: both, found: [found] })
    expect(missingKeys(outcome)).toContain(`espalier-sealing-key and espalier-ca: missing`)
    expect(missingKeys(outcome)).toContain(found)
    expect(await secret(sealingKeySecret)).toBeUndefined()
    expect(await secret(authoritySecret)).toBeUndefined()
  })
})
