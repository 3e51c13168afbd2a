/** Slow probes, hanging writes and damaged pages: what is reported, and that nothing is probed too often. */
import { describe, expect, test } from 'vitest'
import { childNames, type ManagedDatabase } from '../../crds/index.ts'
import { walProbeAnnotation } from '../member/pod/wal-probe.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const open = { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }

const podOf = async (name: string) => {
  const pod = await it.child('Pod', name, 'pod')
  if (pod === undefined) throw new Error('there is no pod')
  return pod
}
const dataOf = ({ status }: ManagedDatabase) => {
  const data = it.workload().postgres.data.get(status?.volume?.uid ?? '')
  if (data === undefined) throw new Error('there are no data')
  return data
}
const probesOf = async (name: string) => it.workload().postgres.prober.get((await podOf(name)).status?.podIP ?? '') ?? 0

/** As after an upgrade: the pod was created before WAL probes existed. */
async function forgetProbe(name: string): Promise<void> {
  const pod = await podOf(name)
  const { [walProbeAnnotation]: _, ...annotations } = pod.metadata.annotations ?? {}
  await it.cluster().replace('Pod', { ...pod, metadata: { ...pod.metadata, annotations } })
}

/** Writes the pod's state as the kubelet does. */
async function setReady(name: string, isReady: boolean): Promise<void> {
  const pod = await podOf(name)
  const [container] = pod.status?.containerStatuses ?? []
  if (container === undefined) throw new Error('there is no container')
  const lastTransitionTime = new Date(Date.now() + 60_000).toISOString()
  const status = {
    ...pod.status,
    conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False', lastTransitionTime }],
    containerStatuses: [{ ...container, ready: isReady }],
  }
  await it.cluster().replaceStatus('Pod', { ...pod, status })
}

const restart = async (name: string) =>
  it.workload().restart({ namespace: testNamespace, name: childNames.pod(await it.idOf(name), 1) })

describe('slow probes', () => {
  test('leave a database available, and are not repeated more often', async () => {
    const database = await it.create('slow', open)
    dataOf(database).isSlow = true
    const before = await probesOf('slow')
    // An event triggers a probe at once; each further probe waits longer.
    await setReady('slow', false)
    await it.when('slow', hasCondition('Ready', 'WriteHangs'))
    await setReady('slow', true)
    await it.when('slow', found => isPhase('available')(found) && hasCondition('Ready', 'Serving')(found))
    await it.stopOperator()
    await it.startOperator()
    await eventually(
      () => probesOf('slow'),
      prober => prober > before,
    )
    // A pass after a probe without a result.
    await editSpec(it.cluster(), 'slow', spec => ({ ...spec, deletionProtection: true }))
    const serving = await it.when('slow', ({ metadata, status }) => status?.observedGeneration === metadata.generation)
    expect(serving.status?.phase).toBe('available')
    expect(condition(serving, 'Ready')?.status).toBe('True')
    expect((await probesOf('slow')) - before).toBeLessThanOrEqual(4)
  })

  test('of serving databases are spread over time after a restart of the operator', async () => {
    await it.create('calm', open)
    await it.when('calm', ({ status }) => status?.operation === undefined)
    // Times have whole seconds: the database has served longer than its Postgres has run.
    const since = Date.parse(condition(await it.database('calm'), 'Ready')?.lastTransitionTime ?? '')
    const pod = await podOf('calm')
    const [container] = pod.status?.containerStatuses ?? []
    if (container === undefined) throw new Error('there is no container')
    const running = { startedAt: new Date(since - 5_000).toISOString() }
    const status = { ...pod.status, containerStatuses: [{ ...container, state: { running } }] }
    await it.stopOperator()
    await it.cluster().replaceStatus('Pod', { ...pod, status })
    const before = await probesOf('calm')
    await it.startOperator()
    await it.create('another', open)
    expect(await probesOf('calm')).toBe(before)
    expect(isPhase('available')((await it.database('calm')) ?? ({} as ManagedDatabase))).toBe(true)
  })
})

describe('a Postgres that only the gateway reports as unreachable', () => {
  test('is probed when the gateway reports it, and not earlier', async () => {
    const database = await it.create('unreachable', open)
    const { podIP = '' } = (await podOf('unreachable')).status ?? {}
    const prober = () => it.workload().postgres.prober.get(podIP) ?? 0
    it.workload().postgres.stop(podIP)
    const before = prober()
    const port = database.status?.endpoint?.port ?? 0
    it.gateway().cannotReach([port + 1000, port])
    const began = Date.now()
    const degraded = await it.when('unreachable', isPhase('degraded'))
    expect(condition(degraded, 'Ready')).toMatchObject({ reason: 'NotAnswering' })
    expect(Date.now() - began).toBeLessThan(10_000)
    expect(prober()).toBeGreaterThan(before)
    it.gateway().cannotReach([])
  })
})

describe('a Postgres that only the operator reaches', () => {
  test('is not ready if a gateway reports it and a login through its Service fails, until a login succeeds', async () => {
    const database = await it.create('unrouted', open)
    await it.when('unrouted', found => condition(found, 'Ready')?.status === 'True')
    const data = it.workload().postgres.data.get(database.status?.volume?.uid ?? '')
    if (data === undefined) throw new Error('there are no data')
    data.isUnrouted = true
    it.gateway().cannotReach([database.status?.endpoint?.port ?? 0])
    const degraded = await it.when('unrouted', isPhase('degraded'))
    expect(condition(degraded, 'Ready')).toMatchObject({ status: 'False', reason: 'NotReachable' })
    it.gateway().cannotReach([])
    data.isUnrouted = false
    await it.when('unrouted', isPhase('available'))
  })
})

describe('a port that another process takes while the database is idle', () => {
  test('makes it degraded with the reason until the gateway listens again on the same port', async () => {
    await it.create('porttaken', open)
    const { status } = await it.when('porttaken', found => found.status?.operation === undefined)
    const port = status?.endpoint?.port ?? 0
    it.gateway().cannotListenOn([port])
    const degraded = await it.when('porttaken', isPhase('degraded'))
    expect(condition(degraded, 'EndpointReady')).toMatchObject({ status: 'False', reason: 'PortInUse' })
    expect(condition(degraded, 'Ready')).toMatchObject({ status: 'False', reason: 'PortInUse' })
    it.gateway().cannotListenOn([])
    const serving = await it.when('porttaken', isPhase('available'))
    expect(serving.status?.endpoint?.port).toBe(port)
  })
})

describe('a write to WAL that hangs', () => {
  test('makes the pod not ready, and stops nothing', async () => {
    await it.create('hangs', open)
    const { uid } = (await podOf('hangs')).metadata
    await setReady('hangs', false)
    const degraded = await it.when('hangs', isPhase('degraded'))
    expect(condition(degraded, 'Ready')).toMatchObject({ status: 'False', reason: 'WriteHangs' })
    expect(condition(degraded, 'VolumeReady')).toMatchObject({ status: 'False', reason: 'WriteHangs' })
    expect((await podOf('hangs')).metadata.uid).toBe(uid)
    await setReady('hangs', true)
    await it.when('hangs', isPhase('available'))
  })

  test('is found by a probe of the operator if the pod has no WAL probe', async () => {
    const database = await it.create('oldhangs', open)
    dataOf(database).walHangs = true
    await forgetProbe('oldhangs')
    await restart('oldhangs')
    const degraded = await it.when('oldhangs', isPhase('degraded'))
    await it.when('oldhangs', hasCondition('Ready', 'WriteHangs'))
    expect(degraded.status?.volume).toEqual(database.status?.volume)
  })

  test('is not probed by a commit if the pod has a WAL probe', async () => {
    const database = await it.create('probes', open)
    dataOf(database).walHangs = true
    await restart('probes')
    await it.when('probes', isPhase('available'))
    const serving = await it.when('probes', hasCondition('Ready', 'Serving'))
    expect(condition(serving, 'VolumeReady')?.status).toBe('True')
  })
})

test('a full disk makes the pod not ready, and a probe distinguishes it from a disk that hangs', async () => {
  const database = await it.create('full', open)
  dataOf(database).isFull = true
  await setReady('full', false)
  const full = await it.when('full', hasCondition('VolumeReady', 'DiskFull'))
  expect(condition(full, 'Ready')).toMatchObject({ status: 'True', reason: 'Serving' })
  expect(full.status?.phase).toBe('degraded')
  const { items } = await it.cluster().list('Event', { namespace: testNamespace })
  expect(items.filter(event => event.involvedObject.name === 'full' && event.reason === 'WriteHangs')).toEqual([])
  // Requests made in the meantime are applied, if they need no disk space.
  await editSpec(it.cluster(), 'full', spec => ({ ...spec, ipAllowlist: { rules: [] } }))
  const changed = await it.when('full', found => found.status?.appliedHash !== full.status?.appliedHash)
  expect(changed.status?.phase).toBe('degraded')
  dataOf(database).isFull = false
  await setReady('full', true)
  await it.when('full', isPhase('available'))
})

test('pages with a wrong checksum are reported while the database serves', async () => {
  const database = await it.create('damaged', open)
  dataOf(database).checksumFailures = { count: 3, databases: ['app'], lastAt: '2026-01-02T03:04:05Z' }
  await restart('damaged')
  const degraded = await it.when('damaged', hasCondition('VolumeReady', 'ChecksumFailures'))
  expect(condition(degraded, 'VolumeReady')?.message).toMatch(/damaged.*3 times.*in app\./)
  await it.when('damaged', found => isPhase('degraded')(found) && hasCondition('Ready', 'Serving')(found))
  const event = await eventually(
    async () => {
      const { items } = await it.cluster().list('Event', { namespace: testNamespace })
      return items.find(({ reason }) => reason === 'ChecksumFailures')
    },
    found => found !== undefined,
  )
  expect(event?.type).toBe('Warning')
  delete dataOf(database).checksumFailures
  await restart('damaged')
  await it.when('damaged', isPhase('available'))
})
