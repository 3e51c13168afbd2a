/** Volumes after the loss of the store, with small files instead of data. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { labels, type Tenant, tenantNamespace } from '../../crds/index.ts'
import type { Settings } from '../settings.ts'
import { definitions, openDirectory, silent, temporaryDirectory, testStore } from '../store/testing/store.ts'
import { rescue } from './index.ts'
import { requireStore } from './lost.ts'
import type { VolumeRecord } from './record.ts'

const ports = { first: 20000, last: 20010 }
const id = (n: number): string => `00000000-0000-4000-8000-00000000000${n}`
const tenant: Tenant['spec'] = {
  tenantId: 'acme',
  plan: { name: 'standard' },
  limits: { databases: 10 },
  revokedMembers: ['mallory'],
}
const record = (n: number, name: string, incarnation = 1): VolumeRecord => ({
  ...{
    format: 1,
    kind: 'ManagedDatabase',
    id: id(n),
    name,
    tenant,
    incarnation,
    systemIdentifier: '578437695752307201',
  },
  capacity: '20Gi',
  spec: {
    ...{
      region: 'local',
      size: { name: 'small', version: 1 },
      pgVersion: '17',
      instances: 1,
      services: [],
      options: [],
    },
    ...{ deletionProtection: true, suspended: false, backup: { durable: false }, deletion: { keepBackups: false } },
    ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] },
  },
})

function home() {
  const directory = temporaryDirectory()
  const namespace = join(directory, 'runtime', 'volumes', tenantNamespace('acme'))
  const settings = { home: directory, apiPort: 1, httpsPort: 2, ports } as Settings
  return {
    settings,
    paths: { store: join(directory, 'store'), runtime: join(directory, 'runtime') },
    volume(uid: string, n: number, incarnation = 1, beside?: VolumeRecord) {
      const volume = join(namespace, uid)
      mkdirSync(join(volume, 'pgdata', 'global'), { recursive: true })
      writeFileSync(join(volume, 'pgdata', 'PG_VERSION'), '17\n')
      writeFileSync(join(volume, 'pgdata', 'global', 'pg_control'), Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]))
      const identity = { databaseId: id(n), incarnation, initialisedAt: '2026-01-01T00:00:00Z', pgVersion: '17' }
      writeFileSync(join(volume, 'espalier-identity.json'), JSON.stringify(identity))
      if (beside !== undefined) writeFileSync(`${volume}.json`, JSON.stringify(beside))
      return volume
    },
    rescue: (tenants: string[] = []) => rescue({ settings, tenants, logger: silent, now: () => 0 }),
  }
}

describe('a rescue', () => {
  test('restores name, tenant, size, volume and incarnation, from the volume that was used', async () => {
    const { paths, volume, rescue } = home()
    const before = volume('before', 1, 1, record(1, 'orders', 1))
    volume('after', 1, 2, record(1, 'orders', 2))
    const { databases, skipped, aside } = await rescue()
    expect(databases.map(({ name }) => name)).toEqual(['orders'])
    expect(skipped.map(each => each.volume.directory)).toEqual([before])
    expect(aside).toBeUndefined()
    const { cluster } = await testStore({ directory: paths.store, definitions })
    const namespace = tenantNamespace('acme')
    const database = await cluster.get('ManagedDatabase', { namespace, name: 'orders' })
    expect(database?.metadata.labels?.[labels.id]).toBe(id(1))
    expect(database?.spec).toEqual(record(1, 'orders').spec)
    expect(database?.status).toMatchObject({ incarnation: 2, volume: { systemIdentifier: '578437695752307201' } })
    const claim = await cluster.get('PersistentVolumeClaim', { namespace, name: database?.status?.volume?.claim ?? '' })
    const found = await cluster.get('PersistentVolume', { name: claim?.spec?.volumeName ?? '' })
    expect(found?.spec?.csi?.volumeHandle).toBe(`${namespace}/after`)
    expect(found?.spec?.capacity?.storage).toBe('20Gi')
    expect((await cluster.list('Tenant')).items.map(({ spec }) => spec)).toEqual([tenant])
  })

  test('assigns volumes without a record to the given tenant, and the smallest size that fits', async () => {
    const { volume, rescue } = home()
    const plain = volume('plain', 1)
    await expect(rescue()).rejects.toThrow(`${plain}: its tenant is unknown: name its tenant with --tenant`)
    const { databases } = await rescue(['acme'])
    expect(databases.map(({ name }) => name)).toEqual(['rescued00000000'])
  })

  test('skips volumes that it cannot distinguish, or that are empty', async () => {
    const { volume, rescue } = home()
    volume('good', 1, 1, record(1, 'good'))
    volume('one', 2)
    volume('other', 2)
    rmSync(join(volume('broken', 3), 'pgdata'), { recursive: true })
    rmSync(join(volume('new', 4), 'espalier-identity.json'))
    const { databases, skipped } = await rescue(['acme'])
    expect(databases.map(({ name }) => name)).toEqual(['good'])
    expect(skipped.map(({ why }) => why).sort()).toEqual([
      'another volume has the same identity: move one of them away',
      'another volume has the same identity: move one of them away',
      'it has no complete data directory',
      'it has no identity: it was never initialised',
    ])
  })

  test('moves a damaged store aside, and leaves a readable store unchanged', async () => {
    const { paths, volume, rescue } = home()
    volume('one', 1, 1, record(1, 'one'))
    const store = await openDirectory(paths.store)
    await store.close()
    await expect(rescue()).rejects.toThrow('there is nothing to rescue')
    rmSync(join(paths.store, 'journal-00000001'))
    writeFileSync(join(paths.store, 'snapshot-00000001'), 'damaged')
    const { aside } = await rescue()
    expect(aside).toBe(`${paths.store}.lost-1970-01-01T00-00-00-000Z`)
    expect(readdirSync(aside ?? '')).toContain('snapshot-00000001')
  })
})

describe('an empty store', () => {
  test('is a new installation only if there are no volumes with data', () => {
    const { paths, volume } = home()
    requireStore(paths)
    const made = volume('one', 1)
    expect(() => requireStore(paths)).toThrow(`such as ${made}: the store is missing`)
    mkdirSync(paths.store)
    writeFileSync(join(paths.store, 'lock'), '')
    expect(() => requireStore(paths)).toThrow('`espalier rescue`')
    writeFileSync(join(paths.store, 'journal-00000001'), '')
    requireStore(paths)
  })
})
