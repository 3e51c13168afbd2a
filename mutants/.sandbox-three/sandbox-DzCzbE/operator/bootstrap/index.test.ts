// @ts-nocheck
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import { apiVersion, declarations, systemNamespace, tenantName } from '../../crds/index.ts'
import { openStore, type Store } from '../../embedded/store/index.ts'
import { authoritySecret, sealingKeySecret } from '../../sealing/credentials.ts'
import { isIssuedBy, issueServerCertificate } from '../pki/index.ts'
import { ensureKeys } from './index.ts'

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

const traces: [string, () => Promise<unknown>][] = [
  [
    'a tenant',
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
    () =>
      cluster.create('ManagedDatabase', {
        apiVersion,
        kind: 'ManagedDatabase',
        metadata: { namespace: 'elsewhere', name: 'orders' },
        spec: { region: 'here', size: { name: 'small', version: 1 }, pgVersion: '18' },
      }),
  ],
]

describe('the keys of an installation', () => {
  test('are made once, and are keys', async () => {
    expect(await ensureKeys(cluster)).toEqual({ made: both, missing: [] })
    expect(await value(sealingKeySecret, 'key')).toHaveLength(32)
    const [cert, key] = await Promise.all(['tls.crt', 'tls.key'].map(name => value(authoritySecret, name)))
    const authority = { cert: String(cert), key: String(key) }
    expect(isIssuedBy(authority, issueServerCertificate(authority, { dnsNames: ['a.test'] }))).toBe(true)
    const uids = await Promise.all(both.map(async name => (await secret(name))?.metadata.uid))
    expect(await ensureKeys(cluster)).toEqual({ made: [], missing: [] })
    expect(await Promise.all(both.map(async name => (await secret(name))?.metadata.uid))).toEqual(uids)
  })

  test('are the same for two that begin at once', async () => {
    await Promise.all([ensureKeys(cluster), ensureKeys(cluster)])
    expect(await ensureKeys(cluster)).toEqual({ made: [], missing: [] })
  })

  test('half made by a start cut short are made whole', async () => {
    await ensureKeys(cluster)
    const before = await value(sealingKeySecret, 'key')
    await cluster.delete('Secret', { namespace: systemNamespace, name: authoritySecret })
    expect(await ensureKeys(cluster)).toEqual({ made: [authoritySecret], missing: [] })
    expect(await value(sealingKeySecret, 'key')).toEqual(before)
  })

  test.each(traces)('are never made again once there is %s', async (_, make) => {
    await ensureKeys(cluster)
    await make()
    for (const name of both) await cluster.delete('Secret', { namespace: systemNamespace, name })
    expect(await ensureKeys(cluster)).toEqual({ made: [], missing: both })
    expect(await secret(sealingKeySecret)).toBeUndefined()
    expect(await secret(authoritySecret)).toBeUndefined()
  })
})
