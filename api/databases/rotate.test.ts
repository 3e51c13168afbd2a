/** Rotating passwords through the API, on the in-process store: requests, refusals, and reads during a rotation. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  awaitedRotations,
  childNames,
  type DatabasePhase,
  desiredDigests,
  desiredHash,
  desiredStateOf,
  readOperation,
  tenantNamespace,
} from '../../crds/index.ts'
import { rotationAnnotations, seal, secretLocation } from '../../sealing/credentials.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { reconcile, sealingKey } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const rotate = (id: string, role: string, headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/roles/${role}/rotate-password`, { headers })
const shown = async (id: string, userType = 'application') =>
  (await client.call('GET', `/databases/${id}?user_type=${userType}`)).body

/** Sets the operator's status of a stable database, whose desired state is applied. */
async function reconciled(name: string): Promise<void> {
  const database = await storedDatabase(client, name)
  const desired = desiredStateOf(database)
  const appliedDigests = { hash: desiredHash(desired), members: desiredDigests(desired) }
  await reconcile(client.cluster, 'acme', name, { appliedDigests })
}

async function made(name: string): Promise<string> {
  const id = await createStable(client, name)
  await reconciled(name)
  return id
}

/** Simulates that the operator generates a new password for `app`. */
async function mint(name: string, id: string, password: string): Promise<void> {
  const namespace = tenantNamespace('acme')
  const secret = await client.cluster.get('Secret', { namespace, name: childNames.credentials(id) })
  if (secret === undefined) throw new Error('there are no credentials')
  const app = seal(sealingKey, secretLocation(namespace, secret.metadata.name, 'app'), password)
  const { app: rotation = '' } = awaitedRotations(await storedDatabase(client, name))
  await client.cluster.replace('Secret', {
    ...secret,
    metadata: { ...secret.metadata, annotations: rotationAnnotations({ app: { rotation } }) },
    data: { ...secret.data, app: Buffer.from(app).toString('base64') },
  })
}

test('returns 204 with its task; reads then return the new password and never the previous password', async () => {
  const id = await made('turned')
  expect((await shown(id)).connection.password).toBe('password-of-app')
  const rotated = await rotate(id, 'app')
  expect([rotated.status, rotated.body]).toEqual([204, ''])
  const taskId = rotated.headers['x-task-id']
  expect(rotated.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
  expect(readOperation(await storedDatabase(client, 'turned'))).toMatchObject({
    name: 'rotate-password-managed',
    taskId,
  })
  expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
    name: 'rotate-password-managed',
    subject_id: id,
    request: { role: 'app' },
  })
  const before = await shown(id)
  expect(before.status).toBe('modifying')
  expect(before).not.toHaveProperty('connection')
  // The passwords of other roles do not change.
  expect((await shown(id, 'admin')).connection).toMatchObject({ username: 'admin', password: 'password-of-admin' })

  await mint('turned', id, 'another')
  await until(async () => (await shown(id)).connection?.password === 'another')
  expect((await shown(id)).status).toBe('modifying')
  await reconciled('turned')
  await until(async () => (await shown(id)).status === 'available')
  expect((await shown(id)).connection.password).toBe('another')
  expect((await shown(id, 'admin')).connection.password).toBe('password-of-admin')
})

test('after a failed rotation, reads return the previous password again', async () => {
  const id = await made('kept')
  await rotate(id, 'app')
  await reconciled('kept')
  await until(async () => (await shown(id)).status === 'available')
  expect((await shown(id)).connection.password).toBe('password-of-app')
})

test('accepts each role, and refuses other names', async () => {
  const id = await made('roles')
  for (const role of ['admin', 'app_read_only', 'app']) {
    expect((await rotate(id, role)).status).toBe(204)
    await reconciled('roles')
    await until(async () => (await shown(id)).status === 'available')
  }
  for (const role of ['postgres', 'application', 'App', 'espalier_replication', '%20'])
    expectError(await rotate(id, role), 400, /^role/)
})

describe('causes a 409 with the reason', () => {
  test.each<DatabasePhase>(['creating', 'modifying', 'restoring', 'suspending', 'suspended', 'degraded', 'failed'])(
    'for a database that is %s',
    async phase => {
      const name = `no${phase}`
      const id = await made(name)
      await reconcile(client.cluster, 'acme', name, { phase })
      await until(async () => (await shown(id)).status === phase)
      expectError(await rotate(id, 'app'), 409, new RegExp(`the database is ${phase}`))
    },
  )

  test('while a rotation runs, for another role as well', async () => {
    const id = await made('underway')
    await rotate(id, 'app')
    for (const role of ['app', 'admin']) expectError(await rotate(id, role), 409, /the database is modifying/)
  })
})

test('causes a 404 for a missing database, and a 400 for a body, a query or an invalid UUID', async () => {
  expectError(await rotate('00000000-0000-4000-8000-000000000000', 'app'), 404, /database/)
  expectError(await rotate('nothing', 'app'), 400, /^id/)
  const id = await made('asked')
  const path = `/databases/${id}/roles/app/rotate-password`
  expectError(await client.call('POST', `${path}?now=1`), 400, /now/)
  expectError(await client.call('POST', path, { body: { password: 'mine' } }), 400, /^password/)
})

test('runs once for one Idempotency-Key', async () => {
  const id = await made('once')
  const key = { 'idempotency-key': 'rotate-once' }
  const [first, again] = [await rotate(id, 'app', key), await rotate(id, 'app', key)]
  expect([first.status, again.status]).toEqual([204, 204])
  expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
  expectError(await rotate(id, 'admin', key), 400, /Idempotency-Key/)
})
