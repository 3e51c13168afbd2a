/** Secrets with connection details for clients inside the cluster, through the API on the in-process store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { desiredHash } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase } from '../testing/client.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

test('Secrets can be enabled at creation or later: immediately, and without a task', async () => {
  const created = await client.create('made', { credentials: { secrets: true } })
  expect(created.body.credentials).toEqual({ secrets: true })
  expect((await storedDatabase(client, 'made')).spec.credentials).toEqual({ secrets: true })

  const id = await createStable(client, 'later')
  const patch = (body: object) => client.call('PATCH', `/databases/${id}`, { body })
  const before = await storedDatabase(client, 'later')
  expect(before.spec).not.toHaveProperty('credentials')
  const changed = await patch({ credentials: { secrets: true } })
  expect(changed).toMatchObject({ status: 200, body: { status: 'available', credentials: { secrets: true } } })
  expect(changed.headers).not.toHaveProperty('x-task-id')
  const { spec } = await storedDatabase(client, 'later')
  expect(desiredHash(spec)).toBe(desiredHash(before.spec))
  expect((await patch({ display_name: 'x' })).body.credentials).toEqual({ secrets: true })
  expect((await patch({ credentials: { secrets: false } })).body).not.toHaveProperty('credentials')
  expect((await storedDatabase(client, 'later')).spec).not.toHaveProperty('credentials')
  expectError(await patch({ credentials: { secrets: 'yes' } }), 400, /^credentials.secrets: /)
  expectError(await patch({ credentials: {} }), 400, /^credentials.secrets: is required/)
})
