/** Unmet requests are reported in a condition with a reason, and applied as soon as possible. */
import { describe, expect, test } from 'vitest'
import { labels, type ManagedDatabase, systemNamespace, visiblePhase } from '../../crds/index.ts'
import {
  acknowledgedAnnotation,
  gatewayLeaseName,
  gatewaysClosedAfterMs,
  portsInUseAnnotation,
} from '../../routes/route.ts'
import { microTime } from '../../values/time.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually, regionDraft, sizeDraft, testNamespace } from '../testing/installation.ts'

const short = { creatingMs: 1_000, modifyingMs: 1_000, restoringMs: 1_000, deletingMs: 1_000 }
const it = useInstallation({ configuration: { deadlines: short } })
const longTimeouts = useInstallation()

const add = (name: string, spec: Parameters<typeof databaseDraft>[1] = {}, where = longTimeouts) =>
  where.cluster().create('ManagedDatabase', databaseDraft(name, spec))

/** The conditions that report something wrong, with their reasons. */
const wrong = ({ status }: ManagedDatabase): string[] =>
  (status?.conditions ?? []).filter(({ status }) => status === 'False').map(({ type, reason }) => `${type} ${reason}`)

describe('a request for something that is missing', () => {
  test('a size', async () => {
    await add('sizeless', { size: { name: 'huge', version: 1 } })
    const reported = await longTimeouts.when('sizeless', hasCondition('Progressing', 'SizeNotFound'))
    expect(reported.status?.phase).toBe('creating')
    expect(wrong(reported)).toEqual(['Ready SizeNotFound'])
    expect(condition(reported, 'Ready')?.message).toMatch(/^spec\.size: there is no size huge-v1; /)
    await longTimeouts.cluster().create('Size', sizeDraft('huge'))
    await longTimeouts.when('sizeless', isPhase('available'))
  })

  test('a size that is deleted later changes nothing', async () => {
    await longTimeouts.cluster().create('Size', sizeDraft('passing'))
    await add('stays', { size: { name: 'passing', version: 1 } })
    await longTimeouts.when('stays', found => isPhase('available')(found) && found.status?.operation === undefined)
    await longTimeouts.cluster().delete('Size', { name: 'passing-v1' })
    const reported = await longTimeouts.when('stays', hasCondition('Progressing', 'SizeNotFound'))
    expect(reported.status?.phase).toBe('available')
    expect(await longTimeouts.child('Pod', 'stays', 'pod')).toBeDefined()
  })

  test('a region', async () => {
    await add('placeless', { region: 'nowhere' })
    const reported = await longTimeouts.when('placeless', hasCondition('Progressing', 'RegionNotFound'))
    expect(reported.status?.phase).toBe('creating')
    expect(wrong(reported)).toEqual(['Ready RegionNotFound'])
    expect(condition(reported, 'Ready')?.message).toMatch(/^spec\.region: there is no region nowhere; /)
    await longTimeouts.cluster().create('Region', { ...regionDraft(), metadata: { name: 'nowhere' } })
    await longTimeouts.when('placeless', isPhase('available'))
  })

  test('a region and a size are named by one condition', async () => {
    await add('lost', { region: 'farther', size: { name: 'giant', version: 2 } })
    const reported = await longTimeouts.when('lost', hasCondition('Ready', 'RegionNotFound'))
    expect(wrong(reported)).toEqual(['Ready RegionNotFound'])
    expect(condition(reported, 'Ready')?.message).toMatch(/^spec\.region: .*farther.*; spec\.size: .*giant-v2/)
  })

  test('a port', async () => {
    const narrow = { ...regionDraft({ first: 31000, last: 31000 }), metadata: { name: 'narrow' } }
    await longTimeouts.cluster().create('Region', narrow)
    await add('first', { region: 'narrow' })
    await longTimeouts.when('first', isPhase('available'))
    await add('second', { region: 'narrow' })
    const reported = await longTimeouts.when('second', hasCondition('EndpointReady', 'PortRangeExhausted'))
    expect(condition(reported, 'EndpointReady')?.message).toContain('31000')
    await longTimeouts.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'first' })
    const done = await longTimeouts.when('second', isPhase('available'))
    expect(done.status?.endpoint?.port).toBe(31000)
  })

  test('several databases without a port get released ports at once, one each', async () => {
    const narrow = { ...regionDraft({ first: 31001, last: 31001 }), metadata: { name: 'narrower' } }
    await longTimeouts.cluster().create('Region', narrow)
    const names = ['one', 'two', 'three']
    await add('one', { region: 'narrower' })
    await longTimeouts.when('one', isPhase('available'))
    for (const name of names.slice(1)) await add(name, { region: 'narrower' })
    for (const name of names.slice(1))
      await longTimeouts.when(name, hasCondition('EndpointReady', 'PortRangeExhausted'))
    let holder = 'one'
    const waiting = new Set(names.slice(1))
    while (waiting.size > 0) {
      const freedAt = Date.now()
      await longTimeouts.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: holder })
      const next = await Promise.any(
        [...waiting].map(async name => (await longTimeouts.when(name, isPhase('available'))) && name),
      )
      expect(Date.now() - freedAt).toBeLessThan(10_000)
      waiting.delete(next)
      holder = next
    }
  })

  test('a port on which a gateway cannot listen is replaced by the next one', async () => {
    await longTimeouts
      .cluster()
      .create('Region', { ...regionDraft({ first: 32000, last: 32001 }), metadata: { name: 'used' } })
    await longTimeouts.cluster().create('Lease', {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        name: gatewayLeaseName('other'),
        namespace: systemNamespace,
        labels: { [labels.component]: 'gateway' },
        annotations: { [acknowledgedAnnotation]: '9999999', [portsInUseAnnotation]: '32000' },
      },
      spec: { renewTime: microTime(Date.now()) },
    })
    await add('moved', { region: 'used' })
    const done = await longTimeouts.when('moved', isPhase('available'))
    expect(done.status?.endpoint?.port).toBe(32001)
    await longTimeouts.cluster().delete('Lease', { namespace: systemNamespace, name: gatewayLeaseName('other') })
  })
})

describe('deadlines', () => {
  test('a creation fails at its deadline, and heals afterwards', async () => {
    it.gateway().pause(true)
    await add('slow', {}, it)
    const failed = await it.when('slow', isPhase('failed'))
    expect(condition(failed, 'Progressing')).toMatchObject({ status: 'False', reason: 'DeadlineExceeded' })
    expect(visiblePhase(failed)).toBe('failed')
    const [task] = await eventually(
      () => it.tasksOf('slow'),
      ([found]) => found?.status?.finishedAt !== undefined,
    )
    expect(task?.status).toMatchObject({ phase: 'failed', error: expect.stringContaining('still trying') })
    it.gateway().pause(false)
    const healed = await it.when('slow', isPhase('available'))
    expect(condition(healed, 'Progressing')?.reason).toBe('Completed')
    expect((await it.tasksOf('slow')).map(found => found.status?.phase)).toEqual(['failed'])
  })

  test('a change that passes its deadline leaves the database degraded instead of modifying', async () => {
    await it.create('stuck')
    await it.when('stuck', found => found.status?.operation === undefined)
    it.gateway().pause(true)
    await editSpec(it.cluster(), 'stuck', spec => ({ ...spec, ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] } }))
    const degraded = await it.when('stuck', isPhase('degraded'))
    expect(visiblePhase(degraded)).toBe('degraded')
    it.gateway().pause(false)
    await it.when('stuck', isPhase('available'))
  })

  test('a deletion without a live gateway waits only until the last one must have closed', async () => {
    await longTimeouts.create('ungated', { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } })
    await longTimeouts.gateway().stop()
    const { items } = await longTimeouts.cluster().list('Lease', {
      namespace: systemNamespace,
      labels: { [labels.component]: 'gateway' },
    })
    for (const { metadata } of items)
      await longTimeouts.cluster().delete('Lease', { namespace: systemNamespace, name: metadata.name })
    await longTimeouts.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'ungated' })
    const waiting = await longTimeouts.when(
      'ungated',
      found => condition(found, 'Progressing')?.message.includes('no gateway is running') === true,
    )
    expect(waiting.status?.phase).toBe('deleting')
    expect(await longTimeouts.child('StatefulSet', 'ungated', 'statefulSet')).toBeDefined()

    // Its Lease would have expired by now.
    await longTimeouts.stopOperator()
    await longTimeouts.startOperator({ now: () => Date.now() + gatewaysClosedAfterMs })
    await longTimeouts.untilDeleted('ungated')
  })

  test('a deletion that passes its deadline reports it and continues', async () => {
    await it.create('sticky', { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } })
    it.gateway().pause(true)
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'sticky' })
    const reported = await it.when('sticky', hasCondition('DeletionBlocked', 'DeletionStuck'))
    expect(condition(reported, 'DeletionBlocked')?.message).toContain('gateway')
    it.gateway().pause(false)
    await it.untilDeleted('sticky')
  })
})
