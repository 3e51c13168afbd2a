/** The objects that keep a tenant's namespace from being deleted. */
import { expect, test } from 'vitest'
import { definitionOf } from '../../crds/definition.ts'
import { declarations, labels } from '../../crds/index.ts'
import { openStore } from '../../embedded/store/index.ts'
import { backupDraft, databaseDraft, testNamespace as namespace, silent } from '../testing/installation.ts'
import { remainingIn } from './remaining.ts'

test('databases, kept backups and orphaned volumes keep a namespace; failed backups do not', async () => {
  const store = await openStore({ definitions: Object.values(declarations).map(definitionOf), logger: silent })
  try {
    const cluster = store.connect('test')
    const reason = async () => (await remainingIn(cluster, namespace))?.reason
    await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    expect(await reason()).toBeUndefined()
    const { metadata } = await cluster.create('ManagedDatabase', databaseDraft('one'))
    const backups = ['kept', 'failed'].map(async name => {
      const backup = await cluster.create('Backup', backupDraft(name, { name: 'one', id: 'i' }))
      const phase = name === 'kept' ? 'completed' : 'failed'
      await cluster.replaceStatus('Backup', { ...backup, status: { phase } })
    })
    await Promise.all(backups)
    const claim = await cluster.create('PersistentVolumeClaim', {
      ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
      metadata: { name: 'data', namespace, labels: { [labels.database]: 'i' } },
      spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
    })
    expect(await reason()).toBe('HasDatabases')
    await cluster.delete('ManagedDatabase', metadata)
    expect((await remainingIn(cluster, namespace))?.message).toContain('such as kept')
    await cluster.delete('Backup', { namespace, name: 'kept' })
    expect(await reason()).toBe('HasVolumes')
    await cluster.delete('PersistentVolumeClaim', claim.metadata)
    await expect.poll(reason).toBeUndefined()
  } finally {
    await store.close()
  }
})
