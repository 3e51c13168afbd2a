/** The life of a healthy database: created, changed, suspended, deleted. */
import { X509Certificate } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createInformer } from '../../cluster/informer/index.ts'
import {
  annotations,
  childNames,
  desiredHash,
  labels,
  type ManagedDatabase,
  renderOperation,
  teardownFinalizer,
  visiblePhase,
} from '../../crds/index.ts'
import { sizeAnnotation } from '../member/pod/stateful-set.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import {
  backupDraft,
  databaseDraft,
  editSpec,
  eventually,
  giveSnapshots,
  silent,
  testNamespace,
} from '../testing/installation.ts'

const it = useInstallation()

describe('create', () => {
  test('ends available, with a complete status', async () => {
    const database = await it.create('made', {
      ipAllowlist: { rules: [{ cidr: '203.0.113.7/24' }, { cidr: '10.0.0.1' }] },
    })
    const id = database.metadata.labels?.[labels.id] ?? ''
    expect(database.metadata.finalizers).toContain(teardownFinalizer)
    expect(visiblePhase(database)).toBe('available')
    const { status } = await it.when('made', found => found.status?.operation === undefined)
    expect(status).toMatchObject({
      appliedHash: desiredHash(database.spec),
      incarnation: 1,
      endpoint: { host: '127.0.0.1', port: expect.any(Number) },
      domain: `made-${id.slice(-8)}.db.test`,
      branchCount: 0,
      volume: { systemIdentifier: expect.any(String) },
    })
    for (const type of ['Ready', 'KeysAvailable', 'VolumeReady', 'CredentialsReady', 'EndpointReady'] as const)
      expect(condition(database, type)?.status, type).toBe('True')
    const [route] = await it.routesOf(id)
    expect(route).toMatchObject({ databaseId: id, rules: ['203.0.113.0/24', '10.0.0.1/32'] })
    const [task] = await it.tasksOf('made')
    expect(task).toMatchObject({ spec: { name: 'create-managed' }, status: { phase: 'succeeded' } })
  })

  test('waits and changes nothing if another database has an id with the same beginning', async () => {
    const [first, second] = ['019c1f2a-5b3c-7d4e-8f60-718293a4b5c6', '019c1f2a-5b3c-7d4e-9f60-000000000001']
    await it.cluster().create('ManagedDatabase', databaseDraft('alike', {}, first))
    const before = await it.when('alike', found => isPhase('available')(found) && found.status?.operation === undefined)
    expect(before.status?.domain).toBe('alike-93a4b5c6.db.test')
    const children = async () => [
      await it.child('Secret', 'alike', 'credentials'),
      await it.child('PersistentVolumeClaim', 'alike', 'claim'),
      await it.child('Pod', 'alike', 'pod'),
    ]
    const childrenBefore = await children()
    await it.cluster().create('ManagedDatabase', databaseDraft('alikeagain', {}, second))
    const waiting = await it.when('alikeagain', hasCondition('Progressing', 'NameTaken'))
    expect(waiting.status?.phase).toBe('creating')
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'alikeagain' })
    await it.untilDeleted('alikeagain')
    expect(await children()).toEqual(childrenBefore)
    expect((await it.database('alike'))?.status?.phase).toBe('available')
  })

  test('keeps the host label of an older operator', async () => {
    const id = '019c1f2b-0000-7d4e-8f60-718293a4b5c6'
    await it.cluster().create('ManagedDatabase', databaseDraft('told', {}, id))
    const made = await it.when('told', found => isPhase('available')(found) && found.status?.operation === undefined)
    await it.stopOperator()
    const before = await it.cluster().replaceStatus('ManagedDatabase', {
      ...made,
      status: { ...made.status, domain: 'told-019c1f2b.db.test' },
    })
    await it.startOperator()
    const certificate = () =>
      it
        .child('Secret', 'told', 'tls')
        .then(secret => Buffer.from(secret?.data?.['tls.crt'] ?? '', 'base64').toString())
    await eventually(
      certificate,
      pem => new X509Certificate(pem).subjectAltName?.includes('told-019c1f2b.db.test') === true,
    )
    expect((await it.database('told'))?.status?.domain).toBe(before.status?.domain)
    expect((await it.routesOf(id))[0]?.label).toBe('told-019c1f2b')
  })

  test('takes id and Task from the API', async () => {
    const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
    const taskId = '11111111-2222-4333-8444-555555555555'
    const draft = databaseDraft('fromapi', {}, id)
    const hash = desiredHash({
      services: [],
      ipAllowlist: { rules: [] },
      size: { name: 'small', version: 1 },
      suspended: false,
    })
    const operation = renderOperation({ taskId, name: 'create-managed', hash })
    await it.cluster().create('ManagedDatabase', {
      ...draft,
      metadata: { ...draft.metadata, annotations: { [annotations.operation]: operation } },
    })
    await it.when('fromapi', found => isPhase('available')(found) && found.status?.operation === undefined)
    expect(await it.idOf('fromapi')).toBe(id)
    const tasks = await it.tasksOf('fromapi')
    expect(tasks.map(task => [task.metadata.name, task.status?.phase])).toEqual([[`task-${taskId}`, 'succeeded']])
  })

  test('opens the route only after the roles exist, and only for the allowlist', async () => {
    const seen: string[] = []
    const routes = createInformer(it.cluster(), 'ConfigMap', {
      labels: { [labels.component]: 'route' },
      logger: silent,
    })
    routes.onChange(({ object }) => {
      const text = object.data?.['route.json'] ?? ''
      if (text.includes('"guarded-')) seen.push(JSON.stringify(JSON.parse(text).rules))
    })
    await routes.start()
    await it.create('guarded', { ipAllowlist: { rules: [{ cidr: '192.0.2.0/24' }] } })
    await routes.stop()
    expect(seen).toEqual(['[]', '["192.0.2.0/24"]'])
  })

  test('creates a pod that the restricted pod security standard admits', async () => {
    await it.create('restricted')
    const set = await it.child('StatefulSet', 'restricted', 'statefulSet')
    const pod = set?.spec?.template.spec
    expect(set?.spec).toMatchObject({ replicas: 1, updateStrategy: { type: 'OnDelete' } })
    expect(set?.spec?.volumeClaimTemplates).toBeUndefined()
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
    })
    for (const container of [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])]) {
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
      })
      const small = { cpu: '100m', memory: '96Mi' }
      expect(container.resources?.limits).toEqual(container.name === 'agent' ? small : { cpu: '1', memory: '256Mi' })
    }
    // A field that a cluster without the feature gate would drop is not requested.
    expect(pod?.containers[0]?.lifecycle).toBeUndefined()
    const claim = await it.child('PersistentVolumeClaim', 'restricted', 'claim')
    expect(claim?.spec).toMatchObject({
      accessModes: ['ReadWriteOncePod'],
      resources: { requests: { storage: '1Gi' } },
    })
  })
})

describe('change', () => {
  test('an allowlist is applied only when every gateway has acknowledged it', async () => {
    await it.create('listed')
    await it.when('listed', found => found.status?.operation === undefined)
    it.gateway().pause(true)
    const rules = [{ cidr: '198.51.100.0/24', label: 'office' }]
    const written = await editSpec(it.cluster(), 'listed', spec => ({ ...spec, ipAllowlist: { rules } }))
    expect(visiblePhase(written)).toBe('modifying')
    const waiting = await it.when('listed', hasCondition('EndpointReady', 'AcknowledgementPending'))
    expect(waiting.status?.phase).toBe('modifying')
    expect(condition(waiting, 'Ready')?.status).toBe('True')
    expect(waiting.status?.operation?.name).toBe('update-managed-ip-allowlists')
    expect((await it.routesOf(await it.idOf('listed')))[0]?.rules).toEqual(['198.51.100.0/24'])
    it.gateway().pause(false)
    const done = await it.when('listed', isPhase('available'))
    expect(done.status?.appliedHash).toBe(desiredHash(done.spec))
    const pod = await it.child('Pod', 'listed', 'pod')
    expect(pod?.status?.containerStatuses?.[0]?.restartCount).toBe(0)
  })

  test('names, options and protection change no status', async () => {
    await it.create('named')
    const before = await it.when('named', found => found.status?.operation === undefined)
    await editSpec(it.cluster(), 'named', spec => ({
      ...spec,
      displayName: 'Ledger',
      options: ['a'],
      deletionProtection: true,
    }))
    const after = await it.when('named', found => found.status?.observedGeneration === found.metadata.generation)
    expect(after.status?.phase).toBe('available')
    expect(after.status?.appliedHash).toBe(before.status?.appliedHash)
    expect(await it.tasksOf('named')).toHaveLength(1)
  })

  test('a size restarts Postgres once, with its new configuration, on the same volume', async () => {
    const before = await it.create('sized')
    const pod = await it.child('Pod', 'sized', 'pod')
    await editSpec(it.cluster(), 'sized', spec => ({ ...spec, size: { name: 'large', version: 1 } }))
    const after = await it.when('sized', found => found.status?.appliedHash !== before.status?.appliedHash)
    expect(after.status).toMatchObject({ phase: 'available', volume: before.status?.volume })
    const now = await it.child('Pod', 'sized', 'pod')
    expect(now?.metadata.uid).not.toBe(pod?.metadata.uid)
    expect(now?.metadata.annotations?.[sizeAnnotation]).toBe('large-v1')
    const claim = await it.child('PersistentVolumeClaim', 'sized', 'claim')
    expect(claim?.spec?.resources?.requests?.storage).toBe('2Gi')
    const tasks = await it.tasksOf('sized')
    expect(tasks.map(task => task.spec.name)).toContain('update-managed-size')
  })

  test('suspend stops Postgres and keeps its volume; resume starts it again', async () => {
    const before = await it.create('paused', { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } })
    await editSpec(it.cluster(), 'paused', spec => ({ ...spec, suspended: true }))
    const suspended = await it.when('paused', isPhase('suspended'))
    expect(suspended.status?.appliedHash).toBe(desiredHash(suspended.spec))
    expect(condition(suspended, 'Ready')).toMatchObject({ status: 'False', reason: 'Suspended' })
    expect(await it.child('Pod', 'paused', 'pod')).toBeUndefined()
    await editSpec(it.cluster(), 'paused', spec => ({ ...spec, suspended: false }))
    const resumed = await it.when('paused', isPhase('available'))
    expect(resumed.status?.volume).toEqual(before.status?.volume)
    expect([...it.workload().postgres.initialised.values()].every(count => count === 1)).toBe(true)
  })

  test('suspend waits for a running backup, and continues as soon as it has ended', async () => {
    await it.create('backedup')
    const databaseId = await it.idOf('backedup')
    await giveSnapshots(it.cluster())
    const { snapshots } = it.workload()
    snapshots.making = { mode: 'held' }
    await it.cluster().create('Backup', backupDraft('nightly', { name: 'backedup', id: databaseId }))
    const pod = await it.child('Pod', 'backedup', 'pod')
    await editSpec(it.cluster(), 'backedup', spec => ({ ...spec, suspended: true }))
    const waiting = await it.when('backedup', hasCondition('Progressing', 'AwaitsBackup'))
    expect(condition(waiting, 'Progressing')?.message).toContain('nightly')
    expect(visiblePhase(waiting)).toBe('suspending')
    expect((await it.child('Pod', 'backedup', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    await it.when('backedup', isPhase('suspended'))
    const taken = await it.cluster().get('Backup', { namespace: testNamespace, name: 'nightly' })
    expect(taken?.status?.phase).toBe('completed')
    expect(await it.child('Pod', 'backedup', 'pod')).toBeUndefined()
  })

  test('suspend waits for a backup that the caches do not know yet', async () => {
    await it.create('lagging')
    const databaseId = await it.idOf('lagging')
    await giveSnapshots(it.cluster())
    const caughtUp = Promise.withResolvers<void>()
    await it.stopOperator()
    await it.startOperator({
      wrap: inner => ({
        ...inner,
        async *watch(kind, options) {
          if (kind === 'Backup') await caughtUp.promise
          yield* inner.watch(kind, options)
        },
      }),
    })
    await it.cluster().create('Backup', backupDraft('before', { name: 'lagging', id: databaseId }))
    await editSpec(it.cluster(), 'lagging', spec => ({ ...spec, suspended: true }))
    await it.when('lagging', hasCondition('Progressing', 'AwaitsBackup'))
    caughtUp.resolve()
    await it.when('lagging', isPhase('suspended'))
    const taken = await it.cluster().get('Backup', { namespace: testNamespace, name: 'before' })
    expect(taken?.status?.phase).toBe('completed')
  })

  test('a volume grows automatically as it fills, without a restart or a Task, and events report it', async () => {
    const before = await it.create('filling', {
      storage: { autogrow: { atPercent: 80, stepPercent: 50, maxSize: '4Gi' } },
    })
    const uid = before.status?.volume?.uid ?? ''
    const pod = await it.child('Pod', 'filling', 'pod')
    await it.when('filling', found => found.status?.operation === undefined)
    const data = it.workload().postgres.data.get(uid)
    if (data === undefined) throw new Error('there are no data')
    data.volumeUse = 0.9 * 2 ** 30
    // It is checked every minute; a new operator checks at once.
    await it.stopOperator()
    await it.startOperator()
    const grown = await it.when('filling', found => found.status?.storage?.capacity === '1536Mi')
    expect(grown.status?.phase).toBe('available')
    expect((await it.child('Pod', 'filling', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    expect(await it.tasksOf('filling')).toHaveLength(1)
    const events = async () => (await it.cluster().list('Event', { namespace: testNamespace })).items
    const reported = await eventually(
      async () => (await events()).filter(({ involvedObject }) => involvedObject.name === 'filling'),
      found => found.some(({ reason }) => reason === 'VolumeHasGrown'),
    )
    expect(reported.find(({ reason }) => reason === 'VolumeGrows')?.message).toBe(
      'the volume is growing from 1Gi to 1536Mi',
    )
  })

  test('a full volume grows, and Postgres starts again on it', async () => {
    const autogrow = { atPercent: 80, stepPercent: 50, maxSize: '1500Mi' }
    const before = await it.create('brimming', { storage: { autogrow } })
    const uid = before.status?.volume?.uid ?? ''
    const data = it.workload().postgres.data.get(uid)
    if (data === undefined) throw new Error('there are no data')
    await it.when('brimming', found => found.status?.storage !== undefined)
    data.isFull = true
    await it.workload().restart({ namespace: testNamespace, name: childNames.pod(await it.idOf('brimming'), 1) })
    await it.when('brimming', hasCondition('VolumeReady', 'DiskFull'))
    await it.when('brimming', found => found.status?.storage?.capacity === '1500Mi')
    data.isFull = false
    const healed = await it.when('brimming', isPhase('available'))
    expect(condition(healed, 'VolumeGrown')).toBeUndefined()
    expect(healed.status?.volume).toEqual(before.status?.volume)
  })

  test.each<[string, Partial<ManagedDatabase['spec']>, string]>([
    ['services', { services: [{ serviceType: 'mcp', serviceId: '0a1b2c3d' }] } as never, 'update-managed'],
    ['a size', { size: { name: 'large', version: 1 } }, 'update-managed-size'],
    ['an allowlist', { ipAllowlist: { rules: [{ cidr: '192.0.2.1' }] } }, 'update-managed-ip-allowlists'],
    ['suspension', { suspended: true }, 'suspend-managed'],
    [
      'an allowlist and a size',
      { ipAllowlist: { rules: [{ cidr: '192.0.2.1' }] }, size: { name: 'large', version: 1 } },
      'update-managed',
    ],
  ])('%s, changed without the API, is an operation named by the change', async (what, change, operation) => {
    for (const isOlder of [false, true]) {
      const name = `renamed${what.replaceAll(/[^a-z]/g, '')}${isOlder ? 'older' : ''}`
      const before = await it.create(name)
      const reconciled = await it.when(name, found => found.status?.operation === undefined)
      if (isOlder) {
        // As an older operator leaves it while the new one does not run.
        await it.stopOperator()
        const { appliedDigests: _, ...status } = reconciled.status ?? {}
        await it.cluster().replaceStatus('ManagedDatabase', { ...reconciled, status })
      }
      await editSpec(it.cluster(), name, spec => ({ ...spec, ...change }))
      if (isOlder) await it.startOperator()
      await it.when(name, found => found.status?.appliedHash !== before.status?.appliedHash)
      const tasks = await it.tasksOf(name)
      expect(tasks.map(task => task.spec.name).filter(each => each !== 'create-managed')).toEqual([operation])
    }
  })

  test('an upgrade creates no Task and no modifying phase for objects of an older operator', async () => {
    await it.create('upgraded', { ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] } })
    const reconciled = await it.when('upgraded', found => found.status?.operation === undefined)
    const pod = await it.child('Pod', 'upgraded', 'pod')
    await it.stopOperator()
    const { appliedDigests: _, ...status } = reconciled.status ?? {}
    const older = await it.cluster().replaceStatus('ManagedDatabase', { ...reconciled, status })
    expect(visiblePhase(older)).toBe('available')
    const seen: (string | undefined)[] = []
    const databases = createInformer(it.cluster(), 'ManagedDatabase', { namespace: testNamespace, logger: silent })
    databases.onChange(({ object }) => {
      if (object.metadata.name === 'upgraded') seen.push(visiblePhase(object), object.status?.operation?.name)
    })
    await databases.start()
    await it.startOperator()
    const upgraded = await it.when('upgraded', found => found.status?.appliedDigests !== undefined)
    await databases.stop()
    expect(upgraded.status).toMatchObject({ phase: 'available', appliedHash: reconciled.status?.appliedHash })
    expect(new Set(seen)).toEqual(new Set(['available', undefined]))
    expect(await it.tasksOf('upgraded')).toHaveLength(1)
    expect((await it.child('Pod', 'upgraded', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
  })

  test('of the configuration is applied by a reload after it is mounted, without a restart', async () => {
    const before = await it.create('reloaded')
    const uid = before.status?.volume?.uid ?? ''
    await it.when('reloaded', found => found.status?.operation === undefined)
    const pod = await it.child('Pod', 'reloaded', 'pod')
    const data = it.workload().postgres.data.get(uid)
    if (data === undefined) throw new Error('there are no data')
    // As an older operator left it: other files, which Postgres has read.
    const wanted = data.configuration.inForce
    data.configuration = { ...data.configuration, inForce: 'older', onDisk: 'older' }
    await it.workload().restart({ namespace: testNamespace, name: pod?.metadata.name ?? '' })
    await it.when('reloaded', isPhase('available'))
    it.workload().postgres.mount(uid, wanted)
    await eventually(
      async () => data.configuration.inForce,
      digest => digest === wanted,
    )
    expect(it.workload().postgres.reloads.get(uid)).toBe(1)
    expect((await it.child('Pod', 'reloaded', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    expect(await it.tasksOf('reloaded')).toHaveLength(1)
  })

  test('of the configuration that Postgres refuses is reported and not reloaded', async () => {
    const before = await it.create('refusing')
    const uid = before.status?.volume?.uid ?? ''
    const data = it.workload().postgres.data.get(uid)
    if (data === undefined) throw new Error('there are no data')
    const wanted = data.configuration.inForce
    data.configuration = { ...data.configuration, inForce: 'older', onDisk: wanted, errors: ['work_mem: no'] }
    const pod = { namespace: testNamespace, name: childNames.pod(await it.idOf('refusing'), 1) }
    await it.workload().restart(pod)
    const reported = await it.when('refusing', hasCondition('ConfigurationRefused', 'NotTaken'))
    expect(condition(reported, 'ConfigurationRefused')?.message).toContain('work_mem: no')
    expect(reported.status?.phase).toBe('available')
    expect(it.workload().postgres.reloads.get(uid)).toBeUndefined()
    data.configuration = { ...data.configuration, errors: [] }
    await it.workload().restart(pod)
    await it.when('refusing', found => condition(found, 'ConfigurationRefused') === undefined)
    await eventually(
      async () => data.configuration.inForce,
      digest => digest === wanted,
    )
  })

  test('the last request counts, and the operation of the previous one fails', async () => {
    await it.create('hurried')
    it.gateway().pause(true)
    await editSpec(it.cluster(), 'hurried', spec => ({ ...spec, ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] } }))
    const first = await it.when('hurried', hasCondition('EndpointReady', 'AcknowledgementPending'))
    await editSpec(it.cluster(), 'hurried', spec => ({ ...spec, ipAllowlist: { rules: [{ cidr: '11.0.0.0/8' }] } }))
    const second = await it.when('hurried', found => found.status?.operation?.hash === desiredHash(found.spec))
    it.gateway().pause(false)
    await it.when('hurried', found => isPhase('available')(found) && found.status?.operation === undefined)
    const phases = new Map((await it.tasksOf('hurried')).map(task => [task.metadata.labels?.[labels.id], task.status]))
    expect(phases.get(first.status?.operation?.taskId)).toMatchObject({
      phase: 'failed',
      error: 'a later change to the database replaced it',
    })
    expect(phases.get(second.status?.operation?.taskId)?.phase).toBe('succeeded')
  })
})

describe('delete', () => {
  const remove = (name: string) => it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name })

  test('closes the endpoint first, and leaves no object', async () => {
    const database = await it.create('finished', { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } })
    const id = database.metadata.labels?.[labels.id] ?? ''
    it.gateway().pause(true)
    await remove('finished')
    await eventually(
      () => it.routesOf(id),
      ([route]) => route?.rules.length === 0,
    )
    expect(await it.child('Pod', 'finished', 'pod')).toBeDefined()
    it.gateway().pause(false)
    await it.untilDeleted('finished')
    for (const kind of ['StatefulSet', 'Pod', 'Service', 'ConfigMap', 'Secret', 'PersistentVolumeClaim'] as const) {
      const { items } = await it.cluster().list(kind, { labels: { [labels.database]: id } })
      expect(items, kind).toEqual([])
    }
    const task = await eventually(
      async () => (await it.tasksOf('finished')).find(({ spec }) => spec.name === 'delete-managed'),
      found => found?.status?.finishedAt !== undefined,
    )
    expect(task?.status?.phase).toBe('succeeded')
  })

  test('waits while deletion protection is on, and the database serves', async () => {
    await it.create('guardedone', { deletionProtection: true })
    await remove('guardedone')
    const blocked = await it.when('guardedone', hasCondition('DeletionBlocked', 'DeletionProtected'))
    expect(blocked.status?.phase).toBe('deleting')
    expect(condition(blocked, 'Ready')?.status).toBe('True')
    expect(await it.child('Pod', 'guardedone', 'pod')).toBeDefined()
    await editSpec(it.cluster(), 'guardedone', spec => ({ ...spec, deletionProtection: false }))
    await it.untilDeleted('guardedone')
  })

  test('makes a running creation fail with a plain message', async () => {
    it.gateway().pause(true)
    await it.cluster().create('ManagedDatabase', databaseDraft('overtaken'))
    await it.when('overtaken', hasCondition('EndpointReady', 'AcknowledgementPending'))
    await remove('overtaken')
    it.gateway().pause(false)
    await it.untilDeleted('overtaken')
    const tasks = await eventually(
      () => it.tasksOf('overtaken'),
      found => found.length === 2 && found.every(({ status }) => status?.finishedAt !== undefined),
    )
    const created = tasks.find(({ spec }) => spec.name === 'create-managed')
    expect(created?.status).toMatchObject({ phase: 'failed', error: expect.stringMatching(/deleted/) })
  })
})
