/** Restores that complete, requested through the API and with kubectl; nodes and storage are fakes. */
import { describe, expect, test } from 'vitest'
import { childNames, labels, visiblePhase } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually } from '../testing/installation.ts'
import { reasonOf, useRestores } from '../testing/restores.ts'

const it = useInstallation()
const backups = useBackups(it)
const { taken, dataOf, get: backupOf, snapshotOf } = backups
const { restore, when, request, requestByAnnotation, untilReconciled, createChanged, servingOf, contentOf } =
  useRestores(it, backups)

describe('a restore', () => {
  test('is not completed before clients reach the copy through the Service', async () => {
    await it.create('routed')
    // The operator has logged in to the original already, but not to its copy.
    ;(await dataOf('routed')).isUnrouted = true
    await taken('routed-1', 'routed')
    await requestByAnnotation('routed-back', 'routed', 'routed-1')
    const isRefused = /does not route to this Postgres yet: connect ECONNREFUSED/
    const found = await it.when('routed', ({ status }) => isRefused.test(conditionOf(status, 'Ready')?.message ?? ''))
    expect([conditionOf(found.status, 'Ready')?.reason, visiblePhase(found)]).toEqual(['NotReachable', 'restoring'])
    expect((await restore('routed-back'))?.status?.phase).toBe('running')
    const copy = await servingOf('routed')
    if (copy === undefined) throw new Error('the volume has no data')
    copy.isUnrouted = false
    await untilReconciled('routed')
    expect((await restore('routed-back'))?.status?.phase).toBe('completed')
  })

  test('switches the Service to the copy only after the copy accepts connections', async () => {
    await createChanged('led')
    const claimName = childNames.claim(await it.idOf('led'), 2)
    const seen: { incarnation: string | undefined; isClosed: boolean }[] = []
    const stopped = new AbortController()
    const { resourceVersion } = await it.cluster().list('Service')
    const watching = (async () => {
      for await (const event of it.cluster().watch('Service', { resourceVersion, signal: stopped.signal })) {
        if (event.type === 'BOOKMARK') continue
        const claim = await it.cluster().get('PersistentVolumeClaim', at(claimName))
        const copy = it.workload().postgres.data.get(claim?.metadata.uid ?? '')
        const incarnation = event.object.spec?.selector?.[labels.incarnation]
        seen.push({ incarnation, isClosed: copy === undefined || copy.closed !== undefined })
      }
    })()
    await requestByAnnotation('led-back', 'led', 'led-1')
    await untilReconciled('led')
    stopped.abort()
    await watching
    expect(seen).toEqual([{ incarnation: '2', isClosed: false }])
  })

  test('replaces the data by those of the backup, and keeps endpoint, labels and the old claim', async () => {
    await createChanged('plain')
    const before = await it.database('plain')
    const id = await it.idOf('plain')
    const requested = await requestByAnnotation('plain-back', 'plain', 'plain-1')
    expect(visiblePhase(requested)).toBe('restoring')
    const done = await when('plain-back', ({ status }) => status?.phase === 'completed')
    const after = await untilReconciled('plain')
    expect(await contentOf('plain')).toBe('good')
    expect(after.status).toMatchObject({
      incarnation: 2,
      endpoint: before?.status?.endpoint,
      domain: before?.status?.domain,
    })
    expect(after.status?.volume?.claim).toBe(childNames.claim(id, 2))
    expect(after.status?.volume?.systemIdentifier).toBe(before?.status?.volume?.systemIdentifier)
    expect(after.metadata.labels).toEqual(before?.metadata.labels)
    const service = await it.child('Service', 'plain', 'service')
    expect(service?.spec?.selector?.[labels.incarnation]).toBe('2')

    // Both backups are listed: before and after.
    const { anchor = '', after: latter = '' } = done?.status ?? {}
    expect(done?.status?.anchorRefused).toBeUndefined()
    const snapshot = await snapshotOf(anchor)
    expect((await backupOf(anchor))?.spec.purpose).toBe('prerestore')
    expect(it.workload().snapshots.images.get(snapshot?.metadata.uid ?? '')).toBe(before?.status?.volume?.uid)
    const last = await eventually(
      () => backupOf(latter),
      found => found?.status?.phase === 'completed',
    )
    expect(last?.spec.purpose).toBe('postrestore')

    // Of the old volume only the claim remains, and nothing that runs.
    const old = { statefulSet: childNames.statefulSet(id, 1), configuration: childNames.configuration(id, 1) }
    await eventually(
      async () => [
        await it.cluster().get('StatefulSet', at(old.statefulSet)),
        await it.cluster().get('ConfigMap', at(old.configuration)),
      ],
      found => found.every(object => object === undefined),
    )
    expect((await it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, 1))))?.metadata.uid).toBe(
      before?.status?.volume?.uid,
    )
    const tasks = await it.tasksOf('plain')
    expect(tasks.filter(({ spec }) => spec.name === 'restore-managed')).toMatchObject([
      { status: { phase: 'succeeded' } },
    ])
  })

  test('created by kubectl waits for the previous one, and can restore the prerestore backup', async () => {
    await createChanged('hand')
    await Promise.all([request('hand-a', 'hand', 'hand-1'), request('hand-b', 'hand', 'hand-1')])
    const first = await when('hand-a', ({ status }) => status?.finishedAt !== undefined)
    const second = await when('hand-b', ({ status }) => status?.finishedAt !== undefined)
    expect([first?.status?.phase, second?.status?.phase]).toEqual(['completed', 'completed'])
    await untilReconciled('hand')
    expect(await contentOf('hand')).toBe('good')
    const { anchor = '' } = [first, second].find(found => found?.status?.previous?.incarnation === 1)?.status ?? {}
    await request('hand-c', 'hand', anchor)
    await when('hand-c', ({ status }) => status?.phase === 'completed')
    const after = await untilReconciled('hand')
    expect(await contentOf('hand')).toBe('bad')
    expect(after.status?.incarnation).toBe(4)
  })

  test('of a suspended database completes, and the database remains suspended', async () => {
    await createChanged('asleep')
    await editSpec(it.cluster(), 'asleep', spec => ({ ...spec, suspended: true }))
    await untilReconciled('asleep', 'suspended')
    await requestByAnnotation('asleep-back', 'asleep', 'asleep-1')
    await when('asleep-back', ({ status }) => status?.phase === 'completed')
    await untilReconciled('asleep', 'suspended')
    expect(await contentOf('asleep')).toBe('good')
    await editSpec(it.cluster(), 'asleep', spec => ({ ...spec, suspended: false }))
    await untilReconciled('asleep')
  })

  test('of a database without a volume fails unless discard_previous is set', async () => {
    await createChanged('gone')
    const { claim = '' } = (await it.database('gone'))?.status?.volume ?? {}
    await it.deleteClaimByForce(at(claim))
    const pod = await it.child('Pod', 'gone', 'pod')
    await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
    const volume = (await it.database('gone'))?.status?.volume?.volumeName
    await it.cluster().delete('PersistentVolume', { name: volume ?? '' })
    await it.when('gone', isPhase('failed'))
    await requestByAnnotation('gone-no', 'gone', 'gone-1')
    const refused = await when('gone-no', ({ status }) => status?.finishedAt !== undefined)
    expect([refused?.status?.phase, reasonOf(refused)]).toEqual(['failed', 'NoBackupPossible'])
    expect(refused?.status?.error).toMatch(/no longer exists\. To restore without a backup .* discard_previous: true/)
    await it.when('gone', found => isPhase('failed')(found) && found.status?.operation === undefined)
    await requestByAnnotation('gone-back', 'gone', 'gone-1', true)
    const done = await when('gone-back', ({ status }) => status?.phase === 'completed')
    await untilReconciled('gone')
    expect(done?.status?.anchorRefused).toMatch(/no longer exists/)
    expect(await contentOf('gone')).toBe('good')
  })

  test('of a database that was resized since the backup keeps the new size', async () => {
    await createChanged('grown', { size: { name: 'large', version: 1 } })
    await it.when('grown', found => found.status?.size?.name === 'large' && found.status.operation === undefined)
    await requestByAnnotation('grown-back', 'grown', 'grown-1')
    await when('grown-back', ({ status }) => status?.phase === 'completed')
    const { status } = await untilReconciled('grown')
    expect(status?.size?.name).toBe('large')
    const claim = await it.cluster().get('PersistentVolumeClaim', at(status?.volume?.claim ?? ''))
    expect(claim?.spec?.resources?.requests?.storage).toBe('2Gi')
  })
})

test('a restore with the name of a deleted one takes its own prerestore backup', async () => {
  await createChanged('same')
  await request('same-back', 'same', 'same-1')
  const first = await when('same-back', ({ status }) => status?.phase === 'completed')
  const { volume } = (await untilReconciled('same')).status ?? {}
  await it.cluster().delete('Restore', at('same-back'))
  await eventually(
    () => restore('same-back'),
    found => found === undefined,
  )
  await request('same-back', 'same', 'same-1')
  const second = await when(
    'same-back',
    ({ metadata, status }) => metadata.uid !== first?.metadata.uid && status?.phase === 'completed',
  )
  const snapshot = await snapshotOf(second?.status?.anchor ?? '')
  expect(it.workload().snapshots.images.get(snapshot?.metadata.uid ?? '')).toBe(volume?.uid)
  expect(second?.status?.after).not.toBe(first?.status?.after)
})

test('a Restore that was recreated from a backup of the cluster fails and restores nothing', async () => {
  await createChanged('old')
  await it.stopOperator()
  const { metadata, ...made } = await request('old-back', 'old', 'old-1')
  await it.cluster().replace('Restore', { ...made, metadata: { ...metadata, finalizers: ['espalier.dev/teardown'] } })
  await it.startOperator()
  const ended = await when('old-back', ({ status }) => status?.finishedAt !== undefined)
  expect(reasonOf(ended)).toBe('PutBack')
  expect(await contentOf('old')).toBe('bad')
})
