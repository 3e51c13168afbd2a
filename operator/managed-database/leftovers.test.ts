/** Objects that lost their labels and annotations, or remained after a forced deletion, are fixed or deleted. */
import { describe, expect, test } from 'vitest'
import { apiVersion, childNames, labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { ownerUidAnnotation } from '../objects/ownership.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const key = (name: string) => ({ namespace: testNamespace, name })

describe('leftovers', () => {
  test('that are in no cache are deleted before the database', async () => {
    await it.create('orphaned')
    const id = await it.idOf('orphaned')
    const objectLabels = { [labels.managedBy]: managedByEspalier, [labels.database]: id }
    await it.stopOperator()
    await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { ...key(childNames.claim(id, 7)), labels: objectLabels },
      spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
    })
    const foreign = { ...key('theirs'), labels: { ...objectLabels, [labels.database]: 'another' } }
    await it.cluster().create('Secret', { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', metadata: foreign })
    await it.startOperator()
    await it.cluster().delete('ManagedDatabase', key('orphaned'))
    await it.untilDeleted('orphaned')
    expect(await it.cluster().get('PersistentVolumeClaim', key(childNames.claim(id, 7)))).toBeUndefined()
    expect(await it.cluster().get('Secret', key('theirs'))).toBeDefined()
  })

  test('the port of a database that was deleted by force is free again, also after a crash', async () => {
    for (const isRunning of [true, false]) {
      const name = isRunning ? 'forced' : 'forcedlater'
      const database = await it.create(name)
      const reconciled = await it.when(name, found => found.status?.operation === undefined)
      const route = { namespace: systemNamespace, name: `route-${database.status?.endpoint?.port}` }
      await it.stopOperator()
      const { finalizers: _, ...metadata } = reconciled.metadata
      await it.cluster().replace('ManagedDatabase', { ...reconciled, metadata })
      if (isRunning) await it.startOperator()
      await it.cluster().delete('ManagedDatabase', key(name))
      if (!isRunning) await it.startOperator()
      // The operator may have restored its finalizer first: then it deletes as always.
      await it.untilDeleted(name)
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

  test('with the annotations of a database in another namespace are not its own', async () => {
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
        // Otherwise the garbage collector would delete it at once.
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

  test('a database created again under an old name is a new one', async () => {
    const first = await it.create('again')
    await it.cluster().delete('ManagedDatabase', key('again'))
    await it.untilDeleted('again')
    await it.cluster().create('ManagedDatabase', databaseDraft('again'))
    const second = await it.when('again', isPhase('available'))
    expect(second.status?.volume?.systemIdentifier).not.toBe(first.status?.volume?.systemIdentifier)
    expect(second.metadata.labels?.[labels.id]).not.toBe(first.metadata.labels?.[labels.id])
  })
})
