/** The durable tier through the API, on the in-process store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { desiredHash } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase } from '../testing/client.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

test('the durable tier can be enabled at creation or later, without a task, beside a schedule', async () => {
  const created = await client.create('made', { backup: { durable: true } })
  expect(created.body.backup).toEqual({ durable: true })
  expect((await storedDatabase(client, 'made')).spec.backup).toEqual({ durable: true })

  const id = await createStable(client, 'later')
  const patch = (body: object) => client.call('PATCH', `/databases/${id}`, { body })
  const before = await storedDatabase(client, 'later')
  expect((await client.call('GET', `/databases/${id}`)).body).not.toHaveProperty('backup')
  const backup = { durable: false, schedule: '0 3 * * *' }
  await client.cluster.replace('ManagedDatabase', { ...before, spec: { ...before.spec, backup } })
  const changed = await patch({ backup: { durable: true } })
  expect(changed).toMatchObject({ status: 200, body: { status: 'available', backup: { durable: true } } })
  expect(changed.headers).not.toHaveProperty('x-task-id')
  const { spec } = await storedDatabase(client, 'later')
  expect(spec.backup).toEqual({ durable: true, schedule: '0 3 * * *' })
  expect(desiredHash(spec)).toBe(desiredHash(before.spec))
  expect((await patch({ backup: { durable: false } })).body).not.toHaveProperty('backup')
  expectError(await patch({ backup: { durable: 'yes' } }), 400, /^backup.durable: /)
  expectError(await patch({ backup: {} }), 400, /^backup.durable: is required/)
})
