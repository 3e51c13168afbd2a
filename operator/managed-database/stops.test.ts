/**
 * Stops that are forbidden, or must wait: each would end the last use that protects a volume whose claim a user
 * deleted.
 */
import { afterEach, describe, expect, test } from 'vitest'
import { type Cluster, ClusterError, type PersistentVolume } from '../../cluster/index.ts'
import { labels, type ManagedDatabase } from '../../crds/index.ts'
import { hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testNamespace } from '../testing/installation.ts'

/** Which writes the API server refuses, and whether the watch of claims lags behind. */
const faults = { volumesHeld: false, copiesRefused: false, lag: Promise.resolve() }
afterEach(() => {
  faults.volumesHeld = false
  faults.copiesRefused = false
})

const faulty = (cluster: Cluster): Cluster => ({
  ...cluster,
  create: (kind, draft) =>
    faults.copiesRefused && kind === 'PersistentVolume'
      ? Promise.reject(new ClusterError('Unavailable', 'refused'))
      : cluster.create(kind, draft),
  replace: (kind, object) =>
    faults.volumesHeld && kind === 'PersistentVolume'
      ? Promise.reject(new ClusterError('Conflict', 'held'))
      : cluster.replace(kind, object),
  watch: (kind, options) => {
    const inner = cluster.watch(kind, options)
    if (kind !== 'PersistentVolumeClaim') return inner
    return (async function* () {
      for await (const event of inner) {
        await faults.lag
        yield event
      }
    })()
  },
})
const it = useInstallation({ wrap: faulty })
const open = { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }

const claimOf = async (name: string) => {
  const claim = await it.child('PersistentVolumeClaim', name, 'claim')
  if (claim === undefined) throw new Error('no claim')
  return claim
}
async function volumesOf(name: string): Promise<PersistentVolume[]> {
  const databaseLabel = { [labels.database]: await it.idOf(name) }
  return (await it.cluster().list('PersistentVolume', { labels: databaseLabel })).items
}
const policyOf = async (name: string) => (await volumesOf(name))[0]?.spec?.persistentVolumeReclaimPolicy

/** Available, with its volume recorded and annotated. */
async function create(name: string) {
  await it.create(name, open)
  await eventually(
    () => volumesOf(name),
    found => found.length === 1,
  )
  return it.when(name, ({ status }) => status?.operation === undefined && status?.volume?.volumeName !== undefined)
}
/** Its storage deletes by the uid of its first claim. */
const hasData = ({ status }: ManagedDatabase) => it.workload().postgres.data.has(status?.volume?.uid ?? '')
const suspend = (name: string, suspended = true) => editSpec(it.cluster(), name, spec => ({ ...spec, suspended }))
const deleteVolume = async (name: string) =>
  it.cluster().delete('PersistentVolume', { name: (await claimOf(name)).spec?.volumeName ?? '' })

/** The volume is bound to a new claim while the database is suspended; then it serves. */
async function isReboundAndServes(name: string, before: ManagedDatabase): Promise<void> {
  await it.when(name, hasCondition('VolumeReady', 'Bound'))
  await suspend(name, false)
  await it.when(name, isPhase('available'))
  expect(hasData(before)).toBe(true)
}

describe('of a suspended database whose volume a user deletes, the claim remains', () => {
  test('until the volume is retained', async () => {
    const database = await create('early')
    faults.volumesHeld = true
    await suspend('early')
    await it.when('early', isPhase('suspended'))
    await deleteVolume('early')
    await it.when('early', hasCondition('VolumeReady', 'VolumeBeingDeleted'))
    expect((await claimOf('early')).metadata.deletionTimestamp).toBeUndefined()
    expect(hasData(database)).toBe(true)
    faults.volumesHeld = false
    await isReboundAndServes('early', database)
  })

  test('until there is another object for its storage', async () => {
    const database = await create('alone')
    await suspend('alone')
    await it.when('alone', isPhase('suspended'))
    await eventually(
      () => policyOf('alone'),
      policy => policy === 'Retain',
    )
    faults.copiesRefused = true
    await deleteVolume('alone')
    await it.when('alone', hasCondition('VolumeReady', 'VolumeBeingDeleted'))
    expect((await claimOf('alone')).metadata).toMatchObject({ uid: database.status?.volume?.uid })
    expect((await claimOf('alone')).metadata.deletionTimestamp).toBeUndefined()
    faults.copiesRefused = false
    await isReboundAndServes('alone', database)
  })
})

test('a resumed database keeps its volume retained until a pod uses the claim', async () => {
  await create('waits')
  const before = await policyOf('waits')
  await suspend('waits')
  await it.when('waits', isPhase('suspended'))
  await eventually(
    () => policyOf('waits'),
    policy => policy === 'Retain',
  )
  it.workload().refuse(true)
  try {
    await suspend('waits', false)
    await it.when('waits', hasCondition('Progressing', 'Starting'))
    expect(await policyOf('waits')).toBe('Retain')
  } finally {
    it.workload().refuse(false)
  }
  await it.when('waits', isPhase('available'))
  await eventually(
    () => policyOf('waits'),
    policy => policy === before,
  )
})

test('a pod is not restarted because of a cache that has not yet seen that its claim is being deleted', async () => {
  const database = await create('behind')
  const { name } = (await claimOf('behind')).metadata
  let catchUp = () => {}
  faults.lag = new Promise(resolve => {
    catchUp = resolve
  })
  try {
    await it.cluster().delete('PersistentVolumeClaim', { namespace: testNamespace, name })
    const found = await it.database('behind')
    if (found === undefined) throw new Error('gone')
    const annotations = { ...found.metadata.annotations, 'espalier.dev/restart': 'now' }
    await it.cluster().replace('ManagedDatabase', { ...found, metadata: { ...found.metadata, annotations } })
    await it.when('behind', ({ status }) => status?.operation?.name === 'restart-managed')
  } finally {
    catchUp()
  }
  const isRebound = ({ status }: typeof database) => status?.volume?.uid !== database.status?.volume?.uid
  const after = await it.when('behind', found => isPhase('available')(found) && isRebound(found))
  expect(after.status?.volume?.systemIdentifier).toBe(database.status?.volume?.systemIdentifier)
  expect(hasData(database)).toBe(true)
})
