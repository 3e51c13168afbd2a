/** A resize whose volume grows late or not at all: Postgres is not stopped, and has never half of a size. */
import { beforeEach, describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { visiblePhase } from '../../crds/index.ts'
import { sizeAnnotation } from '../member/pod/stateful-set.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, sizeDraft } from '../testing/installation.ts'

/** Times at which the operator requested a larger volume. */
const requestedAt: number[] = []
const counting = (inner: Cluster): Cluster => ({
  ...inner,
  replace: (kind, object) => {
    if (kind === 'PersistentVolumeClaim') requestedAt.push(Date.now())
    return inner.replace(kind, object)
  },
})
const it = useInstallation({ wrap: counting })

const large = { name: 'large', version: 1 }
const small = { name: 'small', version: 1 }
const resize = (name: string, size: { name: string; version: number }) =>
  editSpec(it.cluster(), name, spec => ({ ...spec, size }))
const volumes = () => it.workload().volumes
const made = async (name: string) => {
  const [configuration, statefulSet, pod] = [
    await it.child('ConfigMap', name, 'configuration'),
    await it.child('StatefulSet', name, 'statefulSet'),
    await it.child('Pod', name, 'pod'),
  ]
  return { data: configuration?.data, template: statefulSet?.spec?.template, pod: pod?.metadata.uid }
}
const untilReconciled = (name: string, size: string) =>
  it.when(
    name,
    found =>
      isPhase('available')(found) &&
      found.status?.size?.name === size &&
      found.status.operation === undefined &&
      condition(found, 'SizeApplied') === undefined,
  )
const resizes = async (name: string) =>
  (await it.tasksOf(name)).filter(task => task.spec.name === 'update-managed-size').map(({ status }) => status)

beforeEach(() => {
  volumes().growth = { mode: 'growing' }
  volumes().refusal = undefined
})

describe('a volume that grows late', () => {
  test('keeps Postgres on the applied size until it has grown, then restarts it once', async () => {
    await it.create('late')
    const before = await made('late')
    volumes().growth = { mode: 'held' }
    await resize('late', large)
    const growing = await it.when('late', hasCondition('SizeApplied', 'Growing'))
    expect(growing.status).toMatchObject({ phase: 'modifying', size: small })
    expect(condition(growing, 'Ready')?.status).toBe('True')
    expect(condition(growing, 'Progressing')).toMatchObject({ status: 'True', reason: 'Growing' })
    const claim = await eventually(
      () => it.child('PersistentVolumeClaim', 'late', 'claim'),
      found => found?.spec?.resources?.requests?.storage === '2Gi',
    )
    expect(claim?.status?.capacity?.storage).toBe('1Gi')
    expect(await made('late')).toEqual(before)
    volumes().growth = { mode: 'growing' }
    it.workload().regrow()
    const done = await untilReconciled('late', 'large')
    expect(condition(done, 'SizeApplied')).toBeUndefined()
    expect((await it.child('Pod', 'late', 'pod'))?.metadata.annotations?.[sizeAnnotation]).toBe('large-v1')
    expect((await resizes('late')).map(status => status?.phase)).toEqual(['succeeded'])
  })

  test.each([false, true])('of a suspended database grows when a pod mounts it; never run: %s', async suspended => {
    const name = suspended ? 'neverrun' : 'resting'
    await it.create(name, { suspended })
    await editSpec(it.cluster(), name, spec => ({ ...spec, suspended: true }))
    await it.when(name, found => isPhase('suspended')(found) && found.status?.operation === undefined)
    await resize(name, large)
    const waiting = await it.when(name, hasCondition('SizeApplied', 'AwaitsResume'))
    expect(waiting.status).toMatchObject({ phase: 'suspended', size: small })
    await eventually(
      () => resizes(name),
      ([status]) => status?.phase === 'succeeded',
    )
    await editSpec(it.cluster(), name, spec => ({ ...spec, suspended: false }))
    await untilReconciled(name, 'large')
  })
})

describe('a growth that is refused', () => {
  test('fails with the reason, changes nothing, and is done when it is allowed', async () => {
    await it.create('refused')
    const before = await made('refused')
    volumes().refusal = 'exceeded quota: storage'
    await resize('refused', large)
    const reported = await it.when('refused', hasCondition('SizeApplied', 'GrowthRefused'))
    expect(visiblePhase(reported)).toBe('available')
    expect(reported.spec.size).toEqual(large)
    expect(reported.status?.size).toEqual(small)
    expect(condition(reported, 'SizeApplied')?.message).toMatch(
      /small-v1 is applied and large-v1.*exceeded quota: storage/,
    )
    expect(condition(reported, 'Progressing')).toMatchObject({ status: 'False', reason: 'GrowthRefused' })
    const [failed] = await eventually(
      () => resizes('refused'),
      ([status]) => status?.finishedAt !== undefined,
    )
    expect(failed).toMatchObject({ phase: 'failed', error: expect.stringContaining('exceeded quota: storage') })
    expect(await made('refused')).toEqual(before)

    volumes().refusal = undefined
    await untilReconciled('refused', 'large')
    expect((await resizes('refused')).map(status => status?.phase).sort()).toEqual(['failed', 'succeeded'])
  })

  test('is requested again after a pause, not in a loop', async () => {
    await it.create('patient')
    volumes().refusal = 'the class cannot expand'
    requestedAt.length = 0
    await resize('patient', large)
    await it.when('patient', hasCondition('SizeApplied', 'GrowthRefused'))
    await eventually(
      () => requestedAt.length,
      count => count >= 3,
    )
    const pauses = requestedAt.slice(1).map((at, index) => at - (requestedAt[index] ?? 0))
    expect(pauses[0]).toBeGreaterThanOrEqual(950)
    expect(pauses[1]).toBeGreaterThanOrEqual(1_950)
  })

  test('ends at once if the size is changed back', async () => {
    await it.create('regretted')
    const before = await made('regretted')
    volumes().refusal = 'exceeded quota: storage'
    await resize('regretted', large)
    await it.when('regretted', hasCondition('SizeApplied', 'GrowthRefused'))
    await resize('regretted', small)
    const back = await untilReconciled('regretted', 'small')
    expect(condition(back, 'SizeApplied')).toBeUndefined()
    expect(condition(back, 'Progressing')?.reason).toBe('Completed')
    expect(await made('regretted')).toEqual(before)
  })
})

describe('a driver that cannot grow volumes', () => {
  test('has its error in the Task', async () => {
    await it.create('limited')
    const before = await made('limited')
    volumes().growth = { mode: 'failing', message: 'the pool is full' }
    await resize('limited', large)
    await it.when('limited', hasCondition('SizeApplied', 'GrowthInfeasible'))
    const [failed] = await eventually(
      () => resizes('limited'),
      ([status]) => status?.finishedAt !== undefined,
    )
    expect(failed?.error).toMatch(/the pool is full.*kubectl describe pvc db-/)
    expect(await made('limited')).toEqual(before)
  })
})

describe('a request for storage that was not met', () => {
  test('is lowered if a smaller growth is requested', async () => {
    await it.cluster().create('Size', sizeDraft('middle', { storageSize: '1536Mi' }))
    await it.create('lowered')
    volumes().growth = { mode: 'failing', message: 'the pool is full' }
    await resize('lowered', large)
    await it.when('lowered', hasCondition('SizeApplied', 'GrowthInfeasible'))
    volumes().growth = { mode: 'growing' }
    await resize('lowered', { name: 'middle', version: 1 })
    await untilReconciled('lowered', 'middle')
    const claim = await it.child('PersistentVolumeClaim', 'lowered', 'claim')
    expect(claim?.spec?.resources?.requests?.storage).toBe('1536Mi')
  })
})

describe('a size that does not exist', () => {
  test('is reported at once and can be changed back, without a restart', async () => {
    await it.create('mistaken')
    const before = await made('mistaken')
    await resize('mistaken', { name: 'enormous', version: 1 })
    const reported = await it.when('mistaken', hasCondition('SizeApplied', 'SizeNotFound'))
    expect(visiblePhase(reported)).toBe('available')
    expect(condition(reported, 'SizeApplied')?.message).toContain('there is no size enormous-v1')
    await resize('mistaken', small)
    await untilReconciled('mistaken', 'small')
    expect(await made('mistaken')).toEqual(before)
  })
})
