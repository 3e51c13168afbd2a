/**
 * There is no space for a copy: the driver's pool is full, or a quota refuses the copy. The backup or branch fails with
 * the reason, or waits and reports it, and succeeds later. The source serves all the time without an error. Failed
 * copies leave no objects.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { eventually } from '../client.ts'
import { faultsOf, type Ledger, type Position, startLedger } from './ledger.ts'
import { connectionOf, createBackup, createBranch, ended, readBackup, readBranch, succeeded } from './requests.ts'
import { minutes, type Serving, startServing } from './serving.ts'
import { everyImage, fillPool, limit, poolBytes } from './storage.ts'
import { asSuperuser } from './superuser.ts'

/** The part of the pool that is left free. With less than a twentieth free, the driver creates nothing new. */
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
const allDeleted = () =>
  eventually(
    'every new object, image and mount is deleted',
    async () => {
      const remaining = (await everyImage(it.provider)).filter(line => !before.includes(line))
      if (remaining.length > 0) throw new Error(remaining.join('\n'))
      return true
    },
    minutes(3),
  )
/** Checks that the source serves: the writers have made steps since then. */
const goesOn = async (since: Position) =>
  eventually('each writer commits 5 more transactions', async () =>
    ledger.position().every((n, writer) => n > (since[writer] ?? 0) + 5),
  )
const branchNamed = (name: string) => it.provider.cluster.get('Branch', { namespace: it.namespace, name })
const messagesOf = async (name: string) =>
  (await branchNamed(name))?.status?.conditions?.map(({ message }) => message).join('; ') ?? ''
const pathOf = (branchId: string) => `/databases/${it.database.id}/branches/${branchId}`
const removeBranch = async (branchId: string) => succeeded(it.api, await it.api.call('DELETE', pathOf(branchId)))

async function expectComplete(branchId: string, from: Position): Promise<void> {
  const connection = await connectionOf(it.api, it.database.id, branchId)
  const faults = asSuperuser(it.provider, connection, client => faultsOf(client, { from, to: ledger.position() }))
  expect(await faults).toEqual([])
}

/** Requests both kinds of copies. Both fail for this reason, while the source serves. */
async function bothFail(reason: RegExp): Promise<void> {
  const since = ledger.position()
  const backup = await createBackup(it.api, it.database.id)
  const task = await ended(it.api, backup)
  expect(task).toMatchObject({ status: 'failed', error: expect.stringMatching(reason) })
  expect(await readBackup(it.api, backup.body.id)).toMatchObject({
    status: 'failed',
    metadata: { error: expect.stringMatching(reason) },
  })
  const branch = await createBranch(it.api, it.database.id)
  expect(await ended(it.api, branch)).toMatchObject({ status: 'failed', error: expect.stringMatching(reason) })
  expect((await readBranch(it.api, it.database.id, branch.body.id)).status).toBe('failed')
  await allDeleted()
  await goesOn(since)
  await it.api.call('DELETE', `/backups/${backup.body.id}`)
  await removeBranch(branch.body.id)
}

/** Requests both kinds of copies again. Both succeed now. */
async function bothSucceed(): Promise<void> {
  const from = ledger.position()
  const backup = await createBackup(it.api, it.database.id)
  await succeeded(it.api, backup)
  const branch = await createBranch(it.api, it.database.id)
  await succeeded(it.api, branch)
  await expectComplete(branch.body.id, from)
  await it.api.call('DELETE', `/backups/${backup.body.id}`)
  await removeBranch(branch.body.id)
  await allDeleted()
}

test(
  'with a full pool, backup and branch fail with the reason; once the pool has space, both are created',
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
  'if a pool has space again while a backup waits for it, the backup is completed',
  async () => {
    const empty = await fill()
    const backup = await createBackup(it.api, it.database.id)
    try {
      const name = childNames.snapshot(backup.body.id)
      const snapshot = () => it.provider.cluster.get('VolumeSnapshot', { namespace: it.namespace, name })
      await eventually(
        'the VolumeSnapshot reports an error',
        async () => (await snapshot())?.status?.error !== undefined,
      )
    } finally {
      await empty()
    }
    await succeeded(it.api, backup)
    await it.api.call('DELETE', `/backups/${backup.body.id}`)
    await allDeleted()
  },
  minutes(5),
)

test(
  'a branch without space for its volume, because of a quota and then a full pool, reports the reason, and is created once there is space',
  async () => {
    const from = ledger.position()
    const lift = await limit(it.provider, it.namespace, { persistentvolumeclaims: '1' })
    let empty = async () => {}
    let branch: Awaited<ReturnType<typeof createBranch>>
    try {
      branch = await createBranch(it.api, it.database.id)
      const { name } = branch.body
      await eventually(
        'the branch reports that the quota is exceeded',
        async () => (await messagesOf(name)).includes('exceeded quota'),
        minutes(2),
      )
      empty = await fill()
      await lift()
      const claim = { namespace: it.namespace, name: childNames.claim(branch.body.id, 1) }
      await eventually(
        'the claim of the branch is created',
        () => it.provider.cluster.get('PersistentVolumeClaim', claim),
        minutes(3),
      )
      await eventually(
        'the branch reports that the pool is full',
        async () => /storage|pool/.test(await messagesOf(name)),
        minutes(3),
      )
      expect((await readBranch(it.api, it.database.id, branch.body.id)).status).toBe('creating')
      await goesOn(ledger.position())
    } finally {
      await lift()
      await empty()
    }
    await succeeded(it.api, branch)
    await expectComplete(branch.body.id, from)
    await removeBranch(branch.body.id)
    await allDeleted()
  },
  minutes(15),
)

test(
  'with a quota of snapshots, backup and branch are refused with the reason; without it, both are created',
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

test('no writer of the source had an error, and its data are complete', async () => {
  await ledger.stop()
  const to = ledger.position()
  const connection = await it.api.connection(it.database.id)
  expect(await asSuperuser(it.provider, connection, client => faultsOf(client, { from: to, to }))).toEqual([])
})
