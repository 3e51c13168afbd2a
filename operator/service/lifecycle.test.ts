/** A database while its services change, and its services during the database's operations. */
import { afterEach, describe, expect, test } from 'vitest'
import type { Deployment } from '../../cluster/index.ts'
import { childNames, labels, type ManagedDatabase, rotationAnnotations, type ServiceConfig } from '../../crds/index.ts'
import { bindingNames, databasesLabel, withoutFinalizer } from '../access/bindings.ts'
import { useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually, testConfiguration, testNamespace } from '../testing/installation.ts'
import { useRestores } from '../testing/restores.ts'
import { serviceSettings } from './settings.ts'

const configuration = {
  images: { ...testConfiguration.images, services: 'espalier' },
  // A replaced workload is deleted at once.
  services: serviceSettings.parse({ settleMs: 0 }),
}
const it = useInstallation({ configuration })
const backups = useBackups(it)
const restores = useRestores(it, backups)

const open = { rules: [{ cidr: '203.0.113.0/24' }] }
const mcp: ServiceConfig = { serviceType: 'mcp', serviceId: '00000001', ipAllowlist: open, mcp: { allowWrites: false } }
const rest: ServiceConfig = {
  ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist: open },
  rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', dbPool: 10, maxRows: 1000 },
}
const writing: ServiceConfig = { ...mcp, mcp: { allowWrites: true } }

const workloads = async (id: string): Promise<Deployment[]> =>
  (await it.cluster().list('Deployment', { labels: { [labels.database]: id } })).items
const namesOf = async (id: string) => (await workloads(id)).map(({ metadata }) => metadata.name).sort()
const selected = async (id: string, type: 'mcp' | 'rest') => {
  const key = { namespace: testNamespace, name: childNames.serviceAddress(id, type) }
  return (await it.cluster().get('Service', key))?.spec?.selector?.[labels.configuration]
}
const runs = ({ status }: ManagedDatabase) =>
  status?.phase === 'available' &&
  status.operation === undefined &&
  status.services?.every(({ state }) => state === 'running') === true
const edit = (name: string, change: Partial<ManagedDatabase['spec']>) =>
  editSpec(it.cluster(), name, spec => ({ ...spec, ...change }))
const request = async (name: string): Promise<string> => {
  await it.cluster().create('ManagedDatabase', databaseDraft(name, { services: [mcp, rest] }))
  await it.when(name, runs)
  return it.idOf(name)
}

/** A PATCH of `mcp` whose new workload does not become ready. */
async function patching(name: string): Promise<{ id: string; before: string[]; patched: string }> {
  const id = await request(name)
  const before = await namesOf(id)
  it.deployments().behave('mcp', 'starting')
  await edit(name, { services: [writing, rest] })
  const found = await eventually(
    () => namesOf(id),
    names => names.length === 3,
  )
  return { id, before, patched: found.find(workload => !before.includes(workload)) ?? '' }
}
const finish = () => it.deployments().behave('mcp', 'ready', { all: true })

afterEach(finish)

describe('in the middle of a PATCH of services', () => {
  type Interruption = {
    name: string
    act(name: string, id: string): Promise<unknown>
    /** Whether the database has reached the state that the test waits for, before the new workload becomes ready. */
    reached?(database: ManagedDatabase): boolean
  }
  const interruptions: Interruption[] = [
    { name: 'a resize', act: name => edit(name, { size: { name: 'large', version: 1 } }) },
    {
      name: 'a rotation',
      act: name => editSpec(it.cluster(), name, spec => spec, { [rotationAnnotations.app_read_only]: 'now' }),
    },
    { name: 'another name', act: name => edit(name, { displayName: 'Ledger' }) },
    {
      name: 'a crash of the operator',
      act: async () => {
        await it.stopOperator()
        await it.startOperator()
      },
    },
  ]
  test.each(interruptions)('$name ends, and then the new workload serves', async ({ name, act }) => {
    const database = `patched${name.replaceAll(' ', '')}`
    const { id, before } = await patching(database)
    const old = await selected(id, 'mcp')
    await act(database, id)
    expect(await selected(id, 'mcp')).toBe(old)
    finish()
    await it.when(database, found => runs(found) && found.metadata.generation === found.status?.observedGeneration)
    const remaining = await eventually(
      () => namesOf(id),
      names => names.length === 2,
    )
    expect(await selected(id, 'mcp')).not.toBe(old)
    // Unchanged services continue in the same pods.
    expect(remaining.filter(workload => workload.includes('-rest-'))).toEqual(
      before.filter(workload => workload.includes('-rest-')),
    )
  })

  test('a suspension stops all workloads, and a resumption starts only the new workloads', async () => {
    const { id, patched } = await patching('patchedsuspension')
    await edit('patchedsuspension', { suspended: true })
    await it.when('patchedsuspension', isPhase('suspended'))
    expect(await namesOf(id)).toEqual([])
    finish()
    await edit('patchedsuspension', { suspended: false })
    await it.when('patchedsuspension', runs)
    const names = await namesOf(id)
    expect(names).toHaveLength(2)
    expect(names).toContain(patched)
  })

  test('a second PATCH that restores the old value deletes the workload that never served', async () => {
    const { id, before } = await patching('patchedback')
    const old = await selected(id, 'mcp')
    await edit('patchedback', { services: [mcp, rest] })
    await it.when('patchedback', runs)
    expect(
      await eventually(
        () => namesOf(id),
        names => names.length === 2,
      ),
    ).toEqual(before)
    expect(await selected(id, 'mcp')).toBe(old)
  })

  test('a restore waits until the new workload serves', async () => {
    await restores.createChanged('patchedrestore', { services: [mcp, rest] })
    await it.when('patchedrestore', found => runs(found) && found.status?.services?.length === 2)
    const id = await it.idOf('patchedrestore')
    const old = await selected(id, 'mcp')
    it.deployments().behave('mcp', 'starting')
    await edit('patchedrestore', { services: [writing, rest] })
    await eventually(
      () => namesOf(id),
      names => names.length === 3,
    )
    await restores.request('patchedrestore-r', 'patchedrestore', 'patchedrestore-1')
    await restores.when('patchedrestore-r', ({ status }) => status?.phase === 'pending')
    expect((await it.database('patchedrestore'))?.status?.incarnation).toBe(1)
    finish()
    await it.when('patchedrestore', found => runs(found) && found.status?.incarnation === 2)
    expect(await restores.contentOf('patchedrestore')).toBe('good')
    expect(await selected(id, 'mcp')).not.toBe(old)
  })

  test('a deletion leaves no object', async () => {
    const { id } = await patching('patcheddeletion')
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'patcheddeletion' })
    await it.untilDeleted('patcheddeletion')
    const kinds = ['Deployment', 'Pod', 'Service', 'Secret', 'NetworkPolicy', 'ConfigMap'] as const
    const remaining = await Promise.all(
      kinds.map(kind => it.cluster().list(kind, { labels: { [labels.database]: id } })),
    )
    expect(remaining.flatMap(({ items }) => items.map(({ metadata }) => metadata.name))).toEqual([])
  })
})

describe('services of a Postgres that does not answer yet', () => {
  const marker = async (id: string) => {
    const key = { namespace: testNamespace, name: childNames.claim(id, 1) }
    const volume = (await it.cluster().get('PersistentVolumeClaim', key))?.metadata.uid ?? ''
    const data = it.workload().postgres.data.get(volume)
    if (data === undefined) throw new Error('there are no data')
    return data
  }

  test('start while Postgres starts, stay pending for any time, and run when Postgres answers', async () => {
    const id = await request('resumed')
    await edit('resumed', { suspended: true })
    await it.when('resumed', isPhase('suspended'))
    const data = await marker(id)
    data.isDown = true
    for (const type of ['mcp', 'rest']) it.deployments().behave(type, 'crashing')
    await edit('resumed', { suspended: false })
    await eventually(
      () => namesOf(id),
      names => names.length === 2,
    )
    const waiting = await it.when(
      'resumed',
      ({ status }) => status?.conditions?.find(({ type }) => type === 'ServicesReady')?.status === 'Unknown',
    )
    expect(waiting.status?.services?.map(({ state }) => state)).toEqual(['pending', 'pending'])
    for (const type of ['mcp', 'rest']) it.deployments().behave(type, 'ready', { all: true })
    data.isDown = false
    await it.when('resumed', runs)
  })
})

describe('idle services', () => {
  type Operation = { name: string; act(name: string): Promise<unknown>; done(database: ManagedDatabase): boolean }
  const operations: Operation[] = [
    {
      name: 'a resize',
      act: name => edit(name, { size: { name: 'large', version: 1 } }),
      done: ({ status }) => status?.size?.name === 'large',
    },
    {
      name: 'a change of the allowlist',
      act: name => edit(name, { ipAllowlist: { rules: [{ cidr: '198.51.100.0/24' }] } }),
      done: ({ metadata, status }) => metadata.generation === status?.observedGeneration,
    },
  ]
  test.each(operations)('continue in the same pods through $name', async ({ name, act, done }) => {
    const database = `resting${name.replaceAll(' ', '')}`
    const id = await request(database)
    const uids = async () => (await workloads(id)).map(({ metadata }) => metadata.uid).sort()
    const before = await uids()
    await act(database)
    await it.when(database, found => runs(found) && done(found))
    expect(await uids()).toEqual(before)
  })
})

describe('in a namespace that the operator no longer manages', () => {
  const its = useInstallation({ configuration: { ...configuration, rightsByNamespace: true } })
  const allow = async (isAllowed: boolean) => {
    const namespace = await its.cluster().get('Namespace', { name: testNamespace })
    if (namespace === undefined) throw new Error('there is no namespace')
    const { [databasesLabel]: _, ...others } = namespace.metadata.labels ?? {}
    const namespaceLabels = isAllowed ? { ...others, [databasesLabel]: 'true' } : others
    await its
      .cluster()
      .replace('Namespace', { ...namespace, metadata: { ...namespace.metadata, labels: namespaceLabels } })
    if (isAllowed) return
    const key = { namespace: testNamespace, name: bindingNames.operator }
    await its.cluster().delete('RoleBinding', key)
    const binding = await its.cluster().get('RoleBinding', key)
    if (binding !== undefined) await its.cluster().replace('RoleBinding', withoutFinalizer(binding))
  }

  test('services continue unchanged, and a PATCH is applied when the operator manages the namespace again', async () => {
    await allow(true)
    await its.cluster().create('ManagedDatabase', databaseDraft('left', { services: [mcp] }))
    await its.when('left', runs)
    const all = async () => (await its.cluster().list('Deployment', { namespace: testNamespace })).items
    const before = await all()
    await allow(false)
    await editSpec(its.cluster(), 'left', spec => ({ ...spec, services: [writing] }))
    const { status } = await its.when('left', isPhase('degraded'))
    expect(status?.conditions?.find(({ type }) => type === 'Ready')?.reason).toBe('NamespaceNotServed')
    expect(await all()).toEqual(before)
    await allow(true)
    await its.when('left', runs)
    await eventually(
      async () => (await all()).map(({ metadata }) => metadata.uid),
      uids => uids.length === 1 && uids[0] !== before[0]?.metadata.uid,
    )
  })
})
