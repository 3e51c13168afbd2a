/** How a new release, another image and a restart affect serving databases: not at all, until a restart is due. */
import { describe, expect, test } from 'vitest'
import type { Pod, StatefulSet } from '../../cluster/index.ts'
import { createInformer } from '../../cluster/informer/index.ts'
import { annotations, desiredHash, desiredStateOf, type ManagedDatabase, visiblePhase } from '../../crds/index.ts'
import { imageAnnotation, templateAnnotation } from '../member/pod/stateful-set.ts'
import { operatorManager } from '../objects/foreign-fields.ts'
import { digestOf } from '../objects/up-to-date.ts'
import { condition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, silent, testConfiguration, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const digest = (fill: string) => `sha256:${fill.repeat(64)}`

const withImages = (image: string) => ({ configuration: { ...testConfiguration, images: { postgres: { 18: image } } } })
const atRest = (name: string) =>
  it.when(name, found => found.status?.phase === 'available' && found.status.operation === undefined)
const podOf = async (name: string): Promise<Pod> => {
  const pod = await it.child('Pod', name, 'pod')
  if (pod === undefined) throw new Error('there is no pod')
  return pod
}
const setOf = async (name: string): Promise<StatefulSet> => {
  const set = await it.child('StatefulSet', name, 'statefulSet')
  if (set === undefined) throw new Error('there is no StatefulSet')
  return set
}
const imageOf = (set: StatefulSet) => set.spec?.template.spec?.containers[0]?.image
const templateOf = (pod: Pod | undefined) => pod?.metadata.annotations?.[templateAnnotation]
const templateOfSet = ({ spec }: StatefulSet) => spec?.template.metadata?.annotations?.[templateAnnotation]

/** The operator of another release, with another template: here, another image. */
async function upgrade(image: string): Promise<void> {
  await it.stopOperator()
  await it.startOperator(withImages(image))
}

/** The image of the pod's Postgres, as the node reports it. */
async function resolved(name: string, imageID: string): Promise<void> {
  const pod = await podOf(name)
  const containerStatuses = pod.status?.containerStatuses?.map(status => ({ ...status, imageID })) ?? []
  await it.cluster().replaceStatus('Pod', { ...pod, status: { ...pod.status, containerStatuses } })
}

const requestRestart = (name: string, value: string) =>
  editSpec(it.cluster(), name, spec => spec, { [annotations.restart]: value })
const restarted = (name: string, value: string) =>
  it.when(
    name,
    found =>
      found.status?.phase === 'available' &&
      found.status.operation === undefined &&
      found.metadata.annotations?.[annotations.restart] === value &&
      visiblePhase(found) === 'available',
  )

describe('a changed image in the configuration', () => {
  test('restarts nothing, creates no Task, and is not applied by a crash', async () => {
    await it.create('kept')
    await atRest('kept')
    await resolved('kept', `docker.io/library/postgres@${digest('a')}`)
    await eventually(
      () => setOf('kept'),
      set => imageOf(set) === `postgres@${digest('a')}`,
    )
    const before = await podOf('kept')
    const template = templateOfSet(await setOf('kept'))

    await upgrade('postgres:18.9')
    const pending = await it.when('kept', found => (found.status?.pendingRestart ?? []).length > 0)
    expect(pending.status?.pendingRestart).toMatchObject([
      { reason: 'Image', message: 'the pod runs postgres:18; a new pod runs postgres:18.9' },
    ])
    expect(condition(pending, 'RestartPending')).toMatchObject({ status: 'True', reason: 'Image' })
    expect(pending.status).toMatchObject({ phase: 'available' })
    expect(visiblePhase(pending)).toBe('available')
    expect((await podOf('kept')).metadata.uid).toBe(before.metadata.uid)
    expect(await it.tasksOf('kept')).toHaveLength(1)
    expect(templateOfSet(await setOf('kept'))).toBe(template)
    expect(imageOf(await setOf('kept'))).toBe(`postgres@${digest('a')}`)

    // A user, or a drained node, deletes the pod.
    await it.cluster().delete('Pod', { namespace: testNamespace, name: before.metadata.name })
    const again = await eventually(
      () => it.child('Pod', 'kept', 'pod'),
      pod => pod !== undefined && pod.metadata.uid !== before.metadata.uid && pod.status?.podIP !== undefined,
    )
    expect(templateOf(again)).toBe(template)
    expect(again?.spec?.containers[0]?.image).toBe(`postgres@${digest('a')}`)

    await requestRestart('kept', 'now')
    const done = await restarted('kept', 'now')
    expect(done.status?.pendingRestart).toBeUndefined()
    expect(condition(done, 'RestartPending')).toBeUndefined()
    expect((await podOf('kept')).spec?.containers[0]?.image).toBe('postgres:18.9')
    await upgrade('postgres:18')
  })

  test.each([
    ['an id alone', digest('b')],
    ['a name made up for the occasion', `docker.io/library/import-2026-01-01@${digest('b')}`],
    ['none', ''],
  ])('is kept by its name if the node has no digest that can be pulled: %s', async (what, imageID) => {
    const name = `named${what.replaceAll(/[^a-z]/g, '')}`
    await it.create(name)
    await atRest(name)
    await resolved(name, imageID)
    await requestRestart(name, 'now')
    await restarted(name, 'now')
    expect(imageOf(await setOf(name))).toBe('postgres:18')
  })

  test('does not replace a pinned image at a restart if only its tag was moved', async () => {
    await it.create('pinned')
    await atRest('pinned')
    await resolved('pinned', `docker.io/library/postgres@${digest('c')}`)
    await eventually(
      () => setOf('pinned'),
      set => imageOf(set) === `postgres@${digest('c')}`,
    )
    await requestRestart('pinned', 'now')
    await restarted('pinned', 'now')
    const pod = await podOf('pinned')
    expect(pod.spec?.containers[0]?.image).toBe(`postgres@${digest('c')}`)
    expect(pod.metadata.annotations?.[imageAnnotation]).toBe('postgres:18')
    expect((await it.database('pinned'))?.status?.pendingRestart).toBeUndefined()
  })

  test('is applied by a resize and by a resumption', async () => {
    await it.create('grown')
    await it.create('resumed')
    await atRest('grown')
    await atRest('resumed')
    await upgrade('postgres:18.8')
    await it.when('grown', found => found.status?.pendingRestart !== undefined)
    await editSpec(it.cluster(), 'grown', spec => ({ ...spec, size: { name: 'large', version: 1 } }))
    const grown = await it.when(
      'grown',
      found => found.status?.pendingRestart === undefined && found.status?.phase === 'available',
    )
    expect(grown.status?.operation?.name ?? 'update-managed-size').toBe('update-managed-size')
    expect((await podOf('grown')).spec?.containers[0]?.image).toBe('postgres:18.8')
    await editSpec(it.cluster(), 'resumed', spec => ({ ...spec, suspended: true }))
    await it.when('resumed', isPhase('suspended'))
    await editSpec(it.cluster(), 'resumed', spec => ({ ...spec, suspended: false }))
    await atRest('resumed')
    expect((await podOf('resumed')).spec?.containers[0]?.image).toBe('postgres:18.8')
    await upgrade('postgres:18')
  })

  const crashed = (restartCount: number, state: object) => ({
    name: 'postgres',
    image: 'i',
    imageID: '',
    ready: false,
    restartCount,
    state,
    lastState: { terminated: { exitCode: 137, message: '' } },
  })

  test('is not applied if Postgres was killed once, but if the pod cannot run', async () => {
    await it.create('killed')
    await atRest('killed')
    await upgrade('postgres:18.7')
    await it.when('killed', found => found.status?.pendingRestart !== undefined)
    const pod = await podOf('killed')
    const writeStatus = async (status: object) =>
      it.cluster().replaceStatus('Pod', {
        ...(await podOf('killed')),
        status: { ...pod.status, containerStatuses: [status] },
      } as Pod)
    await writeStatus(crashed(1, { terminated: { exitCode: 137, message: '' } }))
    await it.when('killed', isPhase('degraded'))
    expect(imageOf(await setOf('killed'))).toBe('postgres:18')
    expect((await podOf('killed')).metadata.uid).toBe(pod.metadata.uid)
    await writeStatus(crashed(4, { waiting: { reason: 'CrashLoopBackOff', message: 'back-off' } }))
    await atRest('killed')
    expect((await podOf('killed')).spec?.containers[0]?.image).toBe('postgres:18.7')
    await upgrade('postgres:18')
  })

  test('keeps the pod of an older operator, with its image pinned to the running one', async () => {
    await it.create('older')
    await atRest('older')
    await it.stopOperator()
    // As an older operator created it: another specification, none of the newer annotations.
    const set = await setOf('older')
    const pod = await podOf('older')
    const old = {
      'espalier.dev/size': 'small-v1',
      'espalier.dev/volume': set.spec?.template.metadata?.annotations?.['espalier.dev/volume'] ?? '',
      [templateAnnotation]: 'older',
    }
    const spec = set.spec && {
      ...set.spec,
      template: { ...set.spec.template, metadata: { ...set.spec.template.metadata, annotations: old } },
    }
    const older = it.installation().store.connect(operatorManager)
    await older.replace('StatefulSet', { ...set, ...(spec ? { spec } : {}) })
    const replaced = await it.cluster().replace('Pod', { ...pod, metadata: { ...pod.metadata, annotations: old } })
    const containerStatuses =
      replaced.status?.containerStatuses?.map(status => ({
        ...status,
        imageID: `docker.io/library/postgres@${digest('d')}`,
      })) ?? []
    await it.cluster().replaceStatus('Pod', { ...replaced, status: { ...replaced.status, containerStatuses } })
    await it.startOperator()
    const pending = await it.when('older', found => found.status?.pendingRestart !== undefined)
    expect(pending.status?.pendingRestart).toMatchObject([{ reason: 'PodTemplate' }])
    expect(visiblePhase(pending)).toBe('available')
    await eventually(
      () => setOf('older'),
      found => imageOf(found) === `postgres@${digest('d')}`,
    )
    expect(templateOfSet(await setOf('older'))).toBe('older')
    expect((await podOf('older')).metadata.uid).toBe(pod.metadata.uid)
    expect(await it.tasksOf('older')).toHaveLength(1)
  })
})

describe('a restart', () => {
  test('requested with kubectl happens once, with a Task of its own', async () => {
    await it.create('asked')
    await atRest('asked')
    const before = await podOf('asked')
    await requestRestart('asked', 'please')
    const modifying = await it.database('asked')
    expect(modifying && visiblePhase(modifying)).toBe('modifying')
    await restarted('asked', 'please')
    const after = await podOf('asked')
    expect(after.metadata.uid).not.toBe(before.metadata.uid)
    expect(after.metadata.annotations?.['espalier.dev/restart']).toBe(digestOf('please'))
    const tasks = await it.tasksOf('asked')
    expect(tasks.map(({ spec, status }) => [spec.name, status?.phase]).sort()).toEqual([
      ['create-managed', 'succeeded'],
      ['restart-managed', 'succeeded'],
    ])
    // Repeating the same request, or removing the annotation, is not another restart.
    const { [annotations.restart]: _, ...rest } = (await it.database('asked'))?.metadata.annotations ?? {}
    const database = (await it.database('asked')) as ManagedDatabase
    await it
      .cluster()
      .replace('ManagedDatabase', { ...database, metadata: { ...database.metadata, annotations: rest } })
    await it.when(
      'asked',
      found =>
        visiblePhase(found) === 'available' &&
        found.status?.operation === undefined &&
        found.metadata.annotations?.[annotations.restart] === undefined,
    )
    expect((await podOf('asked')).metadata.uid).toBe(after.metadata.uid)
  })

  test('whose request was removed creates no Task and no modifying phase', async () => {
    await it.create('withdrawn')
    await atRest('withdrawn')
    await requestRestart('withdrawn', 'please')
    const done = await restarted('withdrawn', 'please')
    const [pod, tasks] = [await podOf('withdrawn'), await it.tasksOf('withdrawn')]
    const phases = new Set<string>()
    const databases = createInformer(it.cluster(), 'ManagedDatabase', { namespace: testNamespace, logger: silent })
    databases.onChange(({ object }) => {
      if (object.metadata.name === 'withdrawn') phases.add(visiblePhase(object))
    })
    await databases.start()
    const { [annotations.restart]: _, ...rest } = done.metadata.annotations ?? {}
    await it.cluster().replace('ManagedDatabase', { ...done, metadata: { ...done.metadata, annotations: rest } })
    const after = await it.when('withdrawn', found => found.status?.appliedHash === desiredHash(desiredStateOf(found)))
    await it.stopOperator()
    await databases.stop()
    expect([after.status?.phase, after.status?.operation]).toEqual(['available', undefined])
    expect(after.status?.appliedDigests?.members).not.toHaveProperty('restart')
    expect([...phases]).toEqual(['available'])
    expect((await it.tasksOf('withdrawn')).length).toBe(tasks.length)
    expect((await podOf('withdrawn')).metadata.uid).toBe(pod.metadata.uid)
    await it.startOperator()
  })

  test('of a suspended database starts nothing', async () => {
    await it.create('asleep', { suspended: true })
    await it.when('asleep', found => found.status?.operation === undefined)
    await requestRestart('asleep', 'please')
    await it.when('asleep', found => visiblePhase(found) === 'suspended' && found.status?.operation === undefined)
    expect(await it.child('Pod', 'asleep', 'pod')).toBeUndefined()
  })

  test('of a database whose claim was deleted gives the volume a new claim', async () => {
    await it.create('guarded')
    const before = await atRest('guarded')
    const claim = await it.child('PersistentVolumeClaim', 'guarded', 'claim')
    if (claim === undefined) throw new Error('there is no claim')
    const key = { namespace: testNamespace, name: claim.metadata.name }
    await it.cluster().delete('PersistentVolumeClaim', key)
    await it.when('guarded', found => condition(found, 'VolumeReady')?.status === 'False')
    await requestRestart('guarded', 'please')
    const after = await restarted('guarded', 'please')
    expect(after.status?.volume?.systemIdentifier).toBe(before.status?.volume?.systemIdentifier)
    expect((await it.cluster().get('PersistentVolumeClaim', key))?.metadata.uid).not.toBe(claim.metadata.uid)
    expect((await podOf('guarded')).metadata.annotations?.['espalier.dev/restart']).toBe(digestOf('please'))
  })
})
