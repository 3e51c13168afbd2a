/**
 * Actions of other clients on a database's storage: a foreground deletion, and the deletion of a claim and a volume,
 * with and without force. No row is lost, and no Postgres restarts unless this was requested.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { eventually, query } from '../client.ts'
import { minutes, type Serving, startServing } from './serving.ts'

let it: Serving

const kubectl = (...args: string[]) => it.provider.kubectl(args)
const refusal = (...args: string[]) => kubectl(...args).then(() => 'deleted', String)
const resource = () => it.provider.cluster.get('ManagedDatabase', { namespace: it.namespace, name: 'stored' })
const claimName = () => childNames.claim(it.database.id, 1)
const claim = () => it.provider.cluster.get('PersistentVolumeClaim', { namespace: it.namespace, name: claimName() })
const volumeName = async () => (await claim())?.spec?.volumeName ?? ''
const volume = async () => it.provider.cluster.get('PersistentVolume', { name: await volumeName() })
const condition = async (type: string) => (await resource())?.status?.conditions?.find(each => each.type === type)
const branch = () => it.provider.cluster.get('Branch', { namespace: it.namespace, name: 'held' })
const pod = () => it.provider.cluster.get('Pod', { namespace: it.namespace, name: childNames.pod(it.database.id, 1) })
const serves = async () => {
  const rows = await query(await it.api.connection(it.database.id), 'SELECT n FROM kept')
  expect(rows).toEqual([{ n: 42 }])
}
const patch = (spec: object) =>
  kubectl('patch', 'mdb', 'stored', '-n', it.namespace, '--type=merge', '-p', JSON.stringify({ spec }))
const isBound = () =>
  eventually(
    'the database reports the reason Bound',
    async () => (await condition('VolumeReady'))?.reason === 'Bound',
    minutes(4),
  )
const isSecured = () =>
  eventually(
    'the database reports that no data are lost',
    async () => (await condition('VolumeReady'))?.message.includes('no data are lost') === true,
    minutes(1),
  )

beforeAll(async () => {
  it = await startServing('storage', 'stored')
  await query(await it.api.connection(it.database.id), 'CREATE TABLE kept AS SELECT 42 AS n')
}, minutes(4))
// The last test deletes the database.
afterAll(() => it?.provider.stop())

test('without force no client can delete a claim or a volume of a database', async () => {
  const labelled = async () => (await volume())?.metadata.labels?.['espalier.dev/database'] === it.database.id
  await eventually('the volume has the label of the database', labelled, minutes(1))
  expect(await refusal('delete', 'pvc', claimName(), '-n', it.namespace, '--wait=false')).toContain(
    'espalier.dev/force',
  )
  expect(await refusal('delete', 'pv', await volumeName(), '--wait=false')).toContain('espalier.dev/force')
  expect((await claim())?.metadata.deletionTimestamp).toBeUndefined()
  expect((await volume())?.metadata.deletionTimestamp).toBeUndefined()
})

test.each([
  ['claim', async () => ['pvc', claimName(), '-n', it.namespace]],
  ['volume', async () => ['pv', await volumeName()]],
] as const)(
  'a %s deleted by force is retained, and bound again when Postgres is next stopped',
  async (what, named) => {
    const target = await named()
    const before = { claim: await claim(), volume: await volume(), pod: await pod() }
    await kubectl('annotate', ...target, 'espalier.dev/force=true')
    await kubectl('delete', ...target, '--wait=false')
    await isSecured()
    expect((await condition('VolumeReady'))?.reason).toBe('VolumeBeingDeleted')
    expect((await volume())?.spec?.persistentVolumeReclaimPolicy).toBe('Retain')
    expect((await pod())?.metadata.uid).toBe(before.pod?.metadata.uid)
    await serves()

    // The first planned stop is a resize, the second a suspension.
    if (what === 'claim') await patch({ size: { name: 'wide', version: 1 } })
    else {
      await patch({ suspended: true })
      await eventually(
        'the database is suspended',
        async () => (await resource())?.status?.phase === 'suspended',
        minutes(4),
      )
      await patch({ suspended: false })
    }
    await isBound()
    await eventually(
      'the database is available',
      async () => (await resource())?.status?.phase === 'available',
      minutes(4),
    )
    await serves()
    const after = { claim: await claim(), volume: await volume() }
    expect(after.claim?.metadata.uid, what).not.toBe(before.claim?.metadata.uid)
    expect(after.volume?.spec?.csi?.volumeHandle).toBe(before.volume?.spec?.csi?.volumeHandle)
    const isBack = async () =>
      (await volume())?.spec?.persistentVolumeReclaimPolicy === before.volume?.spec?.persistentVolumeReclaimPolicy
    await eventually('the volume has its original reclaim policy again', isBack, minutes(1))
  },
  minutes(12),
)

test(
  'a blocked foreground deletion deletes no object',
  async () => {
    await patch({ deletionProtection: false })
    const remove = () => refusal('delete', 'mdb', 'stored', '-n', it.namespace, '--cascade=foreground', '--wait=false')
    const before = { claim: await claim(), pod: await pod() }
    await it.provider.cluster.create('Branch', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'Branch',
      metadata: { name: 'held', namespace: it.namespace },
      spec: {
        databaseName: 'stored',
        databaseId: it.database.id,
        depth: 1,
        region: 'local',
        size: { name: 'nano', version: 1 },
        pgVersion: '17',
        ipAllowlist: { rules: [] },
        services: [],
        options: [],
      },
    })
    // Until the operator has counted the branch, the policy may admit the deletion. The deletion then waits for the
    // branch.
    await remove()
    await eventually('the branch is available', async () => (await branch())?.status?.phase === 'available', minutes(2))
    const isGoing = (await resource())?.metadata.deletionTimestamp !== undefined
    if (isGoing)
      await eventually(
        'the database reports the reason HasBranches',
        async () => (await condition('DeletionBlocked'))?.reason === 'HasBranches',
        minutes(1),
      )
    await eventually(
      'the database reports one blocking branch',
      async () => (await resource())?.status?.blockingBranches === 1,
      minutes(1),
    )
    expect(await remove()).toContain('the database has branches')
    expect((await resource())?.metadata.deletionTimestamp !== undefined).toBe(isGoing)
    // The collector has taken up to 15 s. If it deletes nothing, there is no event to wait for.
    await sleep(30_000)
    expect((await claim())?.metadata.uid).toBe(before.claim?.metadata.uid)
    expect((await claim())?.metadata.deletionTimestamp).toBeUndefined()
    expect((await pod())?.metadata.uid).toBe(before.pod?.metadata.uid)
    await serves()
    const name = await volumeName()
    await kubectl('annotate', 'mdb', 'stored', '-n', it.namespace, 'espalier.dev/force=true')
    await remove()
    await eventually('the database is deleted', async () => (await resource()) === undefined, minutes(4))
    await eventually(
      'the volume is deleted',
      async () => (await it.provider.cluster.get('PersistentVolume', { name })) === undefined,
      minutes(2),
    )
  },
  minutes(10),
)
