/** Deletions that the embedded store refuses. */
import { expect, test } from 'vitest'
import type { Draft, KindName } from '../../cluster/index.ts'
import { refusal } from '../../cluster/testing/conformance/suite.ts'
import { definitionOf } from '../../crds/definition.ts'
import { annotations, apiVersion, declarations, labels, type ManagedDatabase } from '../../crds/index.ts'
import { protections } from './index.ts'
import { testStore } from './testing/store.ts'

const namespace = 'default'
const databaseLabel = { [labels.database]: 'an-id' }
const force = { [annotations.force]: 'true' }

async function open() {
  const { store } = await testStore({
    definitions: Object.values(declarations).map(definitionOf),
    admissions: [protections],
  })
  const cluster = store.connect('kubectl')
  const database = async (
    name: string,
    status: ManagedDatabase['status'],
    more: Partial<ManagedDatabase['spec']> = {},
  ) => {
    const draft: Draft<'ManagedDatabase'> = {
      ...{ apiVersion, kind: 'ManagedDatabase' },
      metadata: { name, namespace, finalizers: ['espalier.dev/teardown'] },
      spec: { region: 'here', size: { name: 'small', version: 1 }, pgVersion: '18', ...more },
    }
    const created = await cluster.create('ManagedDatabase', draft)
    await cluster.replaceStatus('ManagedDatabase', { ...created, status: status ?? {} })
  }
  const annotate = async (
    kind: 'ManagedDatabase' | 'Secret' | 'Namespace',
    name: string,
    entries: Record<string, string>,
  ) => {
    const found = await cluster.get(kind, { namespace, name })
    if (found === undefined) throw new Error(`no ${name}`)
    const metadata = { ...found.metadata, annotations: { ...found.metadata.annotations, ...entries } }
    await cluster.replace(kind, { ...found, metadata } as never)
  }
  const isBeingDeleted = async (name: string) => {
    const found = await cluster.get('ManagedDatabase', { namespace, name })
    return found === undefined || found.metadata.deletionTimestamp !== undefined
  }
  return { store, cluster, database, annotate, isBeingDeleted }
}

test('a database with branches is deleted only with force, by the API, or after its branches', async () => {
  const { store, cluster, database, annotate, isBeingDeleted } = await open()
  for (const [name, status] of [
    ['failed', { blockingBranches: 1, branchCount: 0 }],
    ['older', { branchCount: 2 }],
  ] as const) {
    await database(name, status)
    const { message } = await refusal(cluster.delete('ManagedDatabase', { namespace, name }), 'Forbidden')
    expect(message).toContain('has branches')
    expect(await isBeingDeleted(name)).toBe(false)
    await annotate('ManagedDatabase', name, force)
    await cluster.delete('ManagedDatabase', { namespace, name })
    expect(await isBeingDeleted(name)).toBe(true)
  }
  await database('asked', { blockingBranches: 1 })
  await store.connect('espalier-api').delete('ManagedDatabase', { namespace, name: 'asked' })
  await database('bare', { branchCount: 0 })
  await cluster.delete('ManagedDatabase', { namespace, name: 'bare' })
  for (const name of ['asked', 'bare']) expect(await isBeingDeleted(name)).toBe(true)
})

test('a database is not deleted while it has a branch that the operator has not counted yet', async () => {
  const { cluster, database, isBeingDeleted } = await open()
  await database('shop', { blockingBranches: 0, branchCount: 0 })
  await database('beside', {})
  const branch = await cluster.create('Branch', {
    ...{ apiVersion, kind: 'Branch' },
    metadata: { name: 'just-created', namespace, finalizers: ['espalier.dev/teardown'] },
    spec: {
      ...{ databaseName: 'shop', region: 'here', size: { name: 'small', version: 1 }, pgVersion: '18' },
    },
  } as Draft<'Branch'>)
  const { message } = await refusal(cluster.delete('ManagedDatabase', { namespace, name: 'shop' }), 'Forbidden')
  expect(message).toContain('has branches')
  expect(await isBeingDeleted('shop')).toBe(false)
  await cluster.delete('ManagedDatabase', { namespace, name: 'beside' })
  expect(await isBeingDeleted('beside')).toBe(true)
  await cluster.delete('Branch', { namespace, name: branch.metadata.name })
  await cluster.delete('ManagedDatabase', { namespace, name: 'shop' })
  expect(await isBeingDeleted('shop')).toBe(true)
})

test('a protected database cannot be deleted by any client', async () => {
  const { store, cluster, database, annotate } = await open()
  await database('guarded', {}, { deletionProtection: true })
  await annotate('ManagedDatabase', 'guarded', { ...force, [annotations.orphan]: 'true' })
  for (const by of [cluster, store.connect('espalier-api'), store.connect('espalier-operator')])
    await refusal(by.delete('ManagedDatabase', { namespace, name: 'guarded' }), 'Forbidden')
})

test('an orphaning deletion is refused until the database has the annotation espalier.dev/orphan=true', async () => {
  const { cluster, database, annotate, isBeingDeleted } = await open()
  await database('left', { blockingBranches: 1 })
  const orphan = () => cluster.delete('ManagedDatabase', { namespace, name: 'left' }, { propagation: 'Orphan' })
  expect((await refusal(orphan(), 'Forbidden')).message).toContain(`${annotations.orphan}=true`)
  expect(await isBeingDeleted('left')).toBe(false)
  await annotate('ManagedDatabase', 'left', { [annotations.orphan]: 'true' })
  await orphan()
  expect(await isBeingDeleted('left')).toBe(true)
})

test("objects with data or passwords are deleted only by the operator, with force, or with a tenant's namespace", async () => {
  const { store, cluster, annotate } = await open()
  const credentials = { ...databaseLabel, [labels.component]: 'credentials' }
  const secret = (name: string, entries: Record<string, string>, at = namespace) =>
    cluster.create('Secret', {
      ...{ apiVersion: 'v1', kind: 'Secret' },
      metadata: { name, namespace: at, labels: entries },
    })
  for (const name of ['theirs', 'forced', 'ours']) await secret(name, credentials)
  const { message } = await refusal(cluster.delete('Secret', { namespace, name: 'theirs' }), 'Forbidden')
  expect(message).toContain('espalier.dev/force=true')
  await annotate('Secret', 'forced', force)
  await cluster.delete('Secret', { namespace, name: 'forced' })
  await store.connect('espalier-operator').delete('Secret', { namespace, name: 'ours' })
  await secret('certificate', { ...databaseLabel, [labels.component]: 'tls' })
  await secret('foreign', { [labels.component]: 'credentials' })
  for (const name of ['certificate', 'foreign']) await cluster.delete('Secret', { namespace, name })
  const untilDeleted = async (kind: KindName, key: { namespace?: string; name: string }) =>
    expect.poll(async () => cluster.get(kind, key)).toBeUndefined()
  await cluster.create('Namespace', {
    ...{ apiVersion: 'v1', kind: 'Namespace' },
    metadata: { name: 't', labels: { [labels.tenant]: 'a' } },
  })
  await secret('its', credentials, 't')
  await refusal(cluster.delete('Namespace', { name: 't' }), 'Forbidden')
  await store.connect('espalier-operator').delete('Namespace', { name: 't' })
  await untilDeleted('Namespace', { name: 't' })
  const claim = await cluster.create('PersistentVolumeClaim', {
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
    metadata: { name: 'data', namespace, labels: databaseLabel },
    spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
  })
  await refusal(cluster.delete('PersistentVolumeClaim', claim.metadata), 'Forbidden')
})

test('only the operator can give a backup a purpose other than user, and an update keeps the purpose', async () => {
  const { store, cluster } = await open()
  const backup = (name: string, purpose?: 'user' | 'scheduled'): Draft<'Backup'> => ({
    ...{ apiVersion, kind: 'Backup', metadata: { name, namespace } },
    spec: { databaseName: 'shop', databaseId: 'an-id', kind: 'hot', ...(purpose && { purpose }) } as never,
  })
  const scheduled = backup('shop-scheduled-20270101-020000', 'scheduled')
  const { message } = await refusal(cluster.create('Backup', scheduled), 'Forbidden')
  expect(message).toContain('spec.purpose: only the operator')
  expect((await cluster.create('Backup', backup('own'))).spec.purpose).toBe('user')
  await cluster.create('Backup', backup('named', 'user'))
  const created = await store.connect('espalier-operator').create('Backup', scheduled)
  const annotated = { ...created, metadata: { ...created.metadata, annotations: { note: 'kept' } } }
  expect((await cluster.replace('Backup', annotated)).spec.purpose).toBe('scheduled')
})
