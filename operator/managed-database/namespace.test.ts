/** A namespace that is deleted with the databases and branches in it. */
import { expect, test } from 'vitest'
import type { KindName } from '../../cluster/index.ts'
import { branchDraft, useBranches } from '../testing/branches.ts'
import { useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually } from '../testing/installation.ts'

const it = useInstallation()
useBranches(it)

test('a namespace that is being deleted is deleted with its databases, though no Task can be created in it', async () => {
  const namespace = 'short'
  await it.cluster().create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  const database = databaseDraft('brief')
  await it.cluster().create('ManagedDatabase', { ...database, metadata: { ...database.metadata, namespace } })
  const find = <K extends KindName>(kind: K, name: string) => it.cluster().get(kind, { namespace, name })
  const made = await eventually(
    () => find('ManagedDatabase', 'brief'),
    found => found?.status?.phase === 'available' && found.status.operation === undefined,
  )
  const branch = branchDraft('brief-1', { name: 'brief', id: made?.metadata.labels?.['espalier.dev/id'] ?? '' })
  await it.cluster().create('Branch', { ...branch, metadata: { ...branch.metadata, namespace } })
  await eventually(
    () => find('Branch', 'brief-1'),
    found => found?.status?.phase === 'available',
  )
  await it.cluster().delete('Namespace', { name: namespace })
  await eventually(
    () => it.cluster().get('Namespace', { name: namespace }),
    found => found === undefined,
  )
  expect((await it.cluster().list('PersistentVolumeClaim', { namespace })).items).toEqual([])
})
