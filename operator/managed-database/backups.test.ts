/** How the deletion of a database handles its backups. */
import { beforeAll, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { labels, type ManagedDatabase, teardownFinalizer } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { useInstallation } from '../testing/fixture.ts'
import { backupDraft, databaseDraft, eventually, giveSnapshots, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
beforeAll(() => giveSnapshots(it.cluster()))

const at = (name: string) => ({ namespace: testNamespace, name })
const backup = (name: string) => it.cluster().get('Backup', at(name))
const snapshots = async () => (await it.cluster().list('VolumeSnapshot', { namespace: testNamespace })).items.length

async function withBackup(name: string, spec: Partial<ManagedDatabase['spec']> = {}): Promise<string> {
  await it.create(name, spec)
  const id = await it.idOf(name)
  await it.cluster().create('Backup', backupDraft(`${name}-1`, { name, id }))
  await eventually(
    () => backup(`${name}-1`),
    found => found?.status?.phase === 'completed',
  )
  return id
}

test('they are deleted after its volume and before its finalizer is removed', async () => {
  await withBackup('gone')
  it.workload().snapshots.deleting = 'held'
  await it.cluster().delete('ManagedDatabase', at('gone'))
  const waiting = await it.when('gone', found =>
    /deleting a backup/.test(conditionOf(found.status, 'Progressing')?.message ?? ''),
  )
  expect(waiting.status?.phase).toBe('deleting')
  expect(await it.child('PersistentVolumeClaim', 'gone', 'claim')).toBeUndefined()
  expect(await it.child('Secret', 'gone', 'credentials')).toBeDefined()
  it.workload().snapshots.deleting = 'deleting'
  it.workload().resnapshot()
  await it.untilDeleted('gone')
  expect(await backup('gone-1')).toBeUndefined()
  expect(await snapshots()).toBe(0)
})

test('a backup that no cache has seen is deleted with it', async () => {
  const id = await withBackup('unseen')
  const isUnseen = (object: { metadata: { name: string } }) => object.metadata.name === 'unseen-2'
  await it.stopOperator()
  await it.cluster().create('Backup', backupDraft('unseen-2', { name: 'unseen', id }))
  const blind = (cluster: Cluster): Cluster => ({
    ...cluster,
    list: async (kind, options) => {
      const found = await cluster.list(kind, options)
      return options?.namespace ? found : { ...found, items: found.items.filter(item => !isUnseen(item)) }
    },
    watch: async function* (kind, options) {
      for await (const event of cluster.watch(kind, options))
        if (event.type === 'BOOKMARK' || !isUnseen(event.object)) yield event
    },
  })
  await it.startOperator({ wrap: blind })
  await it.cluster().delete('ManagedDatabase', at('unseen'))
  await it.untilDeleted('unseen')
  expect(await backup('unseen-2')).toBeUndefined()
  await it.stopOperator()
  await it.startOperator()
})

test('they are kept if that is requested, and can be deleted separately', async () => {
  await withBackup('kept', { deletion: { keepBackups: true } })
  await it.cluster().delete('ManagedDatabase', at('kept'))
  await it.untilDeleted('kept')
  expect((await backup('kept-1'))?.status?.phase).toBe('completed')
  expect(await snapshots()).toBe(1)
  await it.cluster().delete('Backup', at('kept-1'))
  await eventually(
    () => backup('kept-1'),
    found => found === undefined,
  )
  expect(await snapshots()).toBe(0)
})

test('the deletion of a copied database object deletes no backups of the original', async () => {
  const id = await withBackup('original')
  await it.stopOperator()
  const copy = databaseDraft('copy', {}, id)
  await it.cluster().create('ManagedDatabase', {
    ...copy,
    metadata: { ...copy.metadata, finalizers: [teardownFinalizer] },
  })
  await it.cluster().delete('ManagedDatabase', at('copy'))
  await it.cluster().create('ManagedDatabase', databaseDraft('second', {}, id))
  await it.startOperator()
  await it.untilDeleted('copy')
  await it.when('second', found => found.metadata.labels?.[labels.id] !== undefined)
  await it.cluster().delete('ManagedDatabase', at('second'))
  await it.untilDeleted('second')
  expect((await backup('original-1'))?.metadata.deletionTimestamp).toBeUndefined()
  expect(await snapshots()).toBe(1)
})
