/** What was stripped of its marks, or left behind by force, is put right or taken away all the same. */
// @ts-nocheck

import { describe, expect, test } from 'vitest'
import { apiVersion, childNames, labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { ownerUidAnnotation } from '../objects/ownership.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const key = (name: string) => ({ namespace: testNamespace, name })

describe('leftovers', () => {
  test('that no cache knows go before the database does', async () => {
    await it.create('orphaned')
    const id = await it.idOf('orphaned')
    const marks = { [labels.managedBy]: managedByEspalier, [labels.database]: id }
    await it.stopOperator()
    await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { ...key(childNames.claim(id, 7)), labels: marks },
      spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
    })
    const foreign = { ...key('theirs'), labels: { ...marks, [labels.database]: 'another' } }
    await it.cluster().create('Secret', { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', metadata: foreign })
    await it.startOperator()
    await it.cluster().delete('ManagedDatabase', key('orphaned'))
    await it.gone('orphaned')
    expect(await it.cluster().get('PersistentVolumeClaim', key(childNames.claim(id, 7)))).toBeUndefined()
    expect(await it.cluster().get('Secret', key('theirs'))).toBeDefined()
  })

  test('the port of a database that was let go by force is free again, also after a crash', async () => {
    for (const isRunning of [true, false]) {
      const name = isRunning ? 'forced' : 'forcedlater'
      const database = await it.create(name)
      const settled = await it.when(name, found => found.status?.operation === undefined)
      const route = { namespace: systemNamespace, name: `route-${database.status?.endpoint?.port}` }
      await it.stopOperator()
      const { finalizers: _, ...metadata } = settled.metadata
      await it.cluster().replace('ManagedDatabase', { ...settled, metadata })
      if (isRunning) await it.startOperator()
      await it.cluster().delete('ManagedDatabase', key(name))
      if (!isRunning) await it.startOperator()
      // The operator may have put its finalizer back before: then it deletes as always.
      await it.gone(name)
      await eventually(
        () => it.cluster().get('ConfigMap', route),
        found => found === undefined,
      )
    }
  })

  test('a volume keeps serving without its labels, and gets them back', async () => {
    const database = await it.create('stripped')
    const claim = await it.child('PersistentVolumeClaim', 'stripped', 'claim')
    if (claim === undefined) throw new Error('no claim')
    const { labels: _, annotations: __, ...metadata } = claim.metadata
    await it.cluster().replace('PersistentVolumeClaim', { ...claim, metadata })
    const mended = await eventually(
      () => it.child('PersistentVolumeClaim', 'stripped', 'claim'),
      found => found?.metadata.labels?.[labels.database] !== undefined,
    )
    expect(mended?.metadata.annotations?.[ownerUidAnnotation]).toBe(database.metadata.uid)
    expect(mended?.metadata.uid).toBe(claim.metadata.uid)
    await it.when('stripped', isPhase('available'))
  })

  test('that carry the mark of a database in another namespace are not its own', async () => {
    const { metadata } = await it.create('elsewhere')
    const id = await it.idOf('elsewhere')
    const namespace = 'another'
    await it.cluster().create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    const owner = { apiVersion, kind: 'ManagedDatabase', name: 'elsewhere', uid: metadata.uid ?? '', controller: true }
    await it.stopOperator()
    await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        namespace,
        name: 'planted',
        // Or the garbage collector would take it away at once.
        finalizers: ['example.com/stays'],
        labels: { [labels.managedBy]: managedByEspalier, [labels.database]: '00000000-0000-4000-8000-000000000000' },
        ownerReferences: [owner],
      },
      spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
    })
    const database = await it.database('elsewhere')
    if (database === undefined) throw new Error('no database')
    const ipAllowlist = { rules: [{ cidr: '192.0.2.0/24' }] }
    const changed = await it
      .cluster()
      .replace('ManagedDatabase', { ...database, spec: { ...database.spec, ipAllowlist } })
    await it.startOperator()
    await it.when('elsewhere', found => found.status?.observedGeneration === changed.metadata.generation)
    expect(await it.idOf('elsewhere')).toBe(id)
  })

  test('a database made anew under an old name is a new one', async () => {
    const first = await it.create('again')
    await it.cluster().delete('ManagedDatabase', key('again'))
    await it.gone('again')
    await it.cluster().create('ManagedDatabase', databaseDraft('again'))
    const second = await it.when('again', isPhase('available'))
    expect(second.status?.volume?.systemIdentifier).not.toBe(first.status?.volume?.systemIdentifier)
    expect(second.metadata.labels?.[labels.id]).not.toBe(first.metadata.labels?.[labels.id])
  })
})
