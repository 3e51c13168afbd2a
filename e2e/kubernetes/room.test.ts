/**
 * Where there is no room for a copy: the driver's pool is full, or a quota refuses. The backup or branch fails with the reason, or
 * waits with it and ends; the source serves on all the while, without an error; and nothing is left of what came to nothing.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { eventually } from '../client.ts'
import { askBackup, askBranch, connectionOf, ended, readBackup, readBranch, succeeded } from './asking.ts'
import { faultsOf, type Ledger, type Position, startLedger } from './ledger.ts'
import { minutes, type Serving, startServing } from './serving.ts'
import { everyImage, fillPool, limit, poolBytes } from './storage.ts'
import { asSuperuser } from './superuser.ts'

/** Of the pool: with less free than a twentieth of it the driver makes nothing new. */
const hardlyAny = 0.04

let it: Serving
let ledger: Ledger
let before: string[]
beforeAll(async () => {
  it = await startServing('room', 'cramped')
  ledger = await startLedger(await it.api.connection(it.database.id))
}, minutes(4))
afterAll(async () => {
  await it?.api.remove(it.database.id, '?force=true')
  await it?.provider.stop()
}, minutes(3))
beforeEach(async () => {
  before = await everyImage(it.provider)
})

const fill = async () => fillPool(it.provider, (await poolBytes(it.provider)) * hardlyAny)
const nothingLeft = () =>
  eventually(
    'nothing left',
    async () => {
      const left = (await everyImage(it.provider)).filter(line => !before.includes(line))
      if (left.length > 0) throw new Error(left.join('\n'))
      return true
    },
    minutes(3),
  )
/** Steps that were taken since: the source serves. */
const goesOn = async (since: Position) =>
  eventually('further transactions', async () => ledger.position().every((n, writer) => n > (since[writer] ?? 0) + 5))
const branchNamed = (name: string) => it.provider.cluster.get('Branch', { namespace: it.namespace, name })
const told = async (name: string) =>
  (await branchNamed(name))?.status?.conditions?.map(({ message }) => message).join('; ') ?? ''
const pathOf = (branchId: string) => `/databases/${it.database.id}/branches/${branchId}`
const removeBranch = async (branchId: string) => succeeded(it.api, await it.api.call('DELETE', pathOf(branchId)))

async function isWhole(branchId: string, from: Position): Promise<void> {
  const connection = await connectionOf(it.api, it.database.id, branchId)
  const faults = asSuperuser(it.provider, connection, client => faultsOf(client, { from, to: ledger.position() }))
  expect(await faults).toEqual([])
}

/** Both kinds of copies come to nothing, for this reason, while the source serves. */
async function bothFail(reason: RegExp): Promise<void> {
  const since = ledger.position()
  const backup = await askBackup(it.api, it.database.id)
  const task = await ended(it.api, backup)
  expect(task).toMatchObject({ status: 'failed', error: expect.stringMatching(reason) })
  expect(await readBackup(it.api, backup.body.id)).toMatchObject({
    status: 'failed',
    metadata: { error: expect.stringMatching(reason) },
  })
  const branch = await askBranch(it.api, it.database.id)
  expect(await ended(it.api, branch)).toMatchObject({ status: 'failed', error: expect.stringMatching(reason) })
  expect((await readBranch(it.api, it.database.id, branch.body.id)).status).toBe('failed')
  await nothingLeft()
  await goesOn(since)
  await it.api.call('DELETE', `/backups/${backup.body.id}`)
  await removeBranch(branch.body.id)
}

/** What failed before comes to be. */
async function bothSucceed(): Promise<void> {
  const from = ledger.position()
  const backup = await askBackup(it.api, it.database.id)
  await succeeded(it.api, backup)
  const branch = await askBranch(it.api, it.database.id)
  await succeeded(it.api, branch)
  await isWhole(branch.body.id, from)
  await it.api.call('DELETE', `/backups/${backup.body.id}`)
  await removeBranch(branch.body.id)
  await nothingLeft()
}

test(
  'a full pool: backup and branch fail and say so; with room again both are made',
  async () => {
    const empty = await fill()
    try {
      await bothFail(/the pool is full/)
    } finally {
      await empty()
    }
    await bothSucceed()
  },
  minutes(15),
)

test(
  'a pool that has room again while a backup waits for it: it is completed',
  async () => {
    const empty = await fill()
    const backup = await askBackup(it.api, it.database.id)
    try {
      const name = childNames.snapshot(backup.body.id)
      const snapshot = () => it.provider.cluster.get('VolumeSnapshot', { namespace: it.namespace, name })
      await eventually('the refusal', async () => (await snapshot())?.status?.error !== undefined)
    } finally {
      await empty()
    }
    await succeeded(it.api, backup)
    await it.api.call('DELETE', `/backups/${backup.body.id}`)
    await nothingLeft()
  },
  minutes(5),
)

test(
  'a branch that is cut and gets no volume, for a quota and then for a full pool: it says so, and is there once there is room',
  async () => {
    const from = ledger.position()
    const lift = await limit(it.provider, it.namespace, { persistentvolumeclaims: '1' })
    let empty = async () => {}
    let branch: Awaited<ReturnType<typeof askBranch>>
    try {
      branch = await askBranch(it.api, it.database.id)
      const { name } = branch.body
      await eventually('the quota is told', async () => (await told(name)).includes('exceeded quota'), minutes(2))
      empty = await fill()
      await lift()
      const claim = { namespace: it.namespace, name: childNames.claim(branch.body.id, 1) }
      await eventually('the claim', () => it.provider.cluster.get('PersistentVolumeClaim', claim), minutes(3))
      await eventually('the full pool is told', async () => /storage|pool/.test(await told(name)), minutes(3))
      expect((await readBranch(it.api, it.database.id, branch.body.id)).status).toBe('creating')
      await goesOn(ledger.position())
    } finally {
      await lift()
      await empty()
    }
    await succeeded(it.api, branch)
    await isWhole(branch.body.id, from)
    await removeBranch(branch.body.id)
    await nothingLeft()
  },
  minutes(15),
)

test(
  'a quota of snapshots: backup and branch are refused and say so; without it both are made',
  async () => {
    const lift = await limit(it.provider, it.namespace, { 'count/volumesnapshots.snapshot.storage.k8s.io': '0' })
    try {
      await bothFail(/exceeded quota/)
    } finally {
      await lift()
    }
    await bothSucceed()
  },
  minutes(10),
)

test('no writer of the source ever met an error, and its data are whole', async () => {
  await ledger.stop()
  const to = ledger.position()
  const connection = await it.api.connection(it.database.id)
  expect(await asSuperuser(it.provider, connection, client => faultsOf(client, { from: to, to }))).toEqual([])
})
