/** Automatic storage growth through the API, on the in-process store. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { desiredHash } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const autogrow = { at_percent: 70, step_percent: 50, max_size: '4Gi' }
const change = (id: string, storage: unknown) => client.call('PATCH', `/databases/${id}`, { body: { storage } })
const shown = async (id: string) => (await client.call('GET', `/databases/${id}`)).body

test('growth is off by default, and then omitted from responses', async () => {
  const id = await createStable(client, 'plain')
  expect(await shown(id)).not.toHaveProperty('storage')
  expect((await storedDatabase(client, 'plain')).spec).not.toHaveProperty('storage')
})

test('growth can be enabled at creation or later: immediately, and without a task', async () => {
  const created = await client.create('made', { storage: { autogrow: { max_size: '4Gi' } } })
  expect(created.body.storage).toEqual({ autogrow: { at_percent: 80, step_percent: 20, max_size: '4Gi' } })
  const id = await createStable(client, 'later')
  const before = desiredHash((await storedDatabase(client, 'later')).spec)
  const changed = await change(id, { autogrow })
  expect(changed).toMatchObject({ status: 200, body: { status: 'available', storage: { autogrow } } })
  expect(changed.headers).not.toHaveProperty('x-task-id')
  const { spec } = await storedDatabase(client, 'later')
  expect(spec.storage).toEqual({ autogrow: { atPercent: 70, stepPercent: 50, maxSize: '4Gi' } })
  expect(desiredHash(spec)).toBe(before)
  const renamed = await client.call('PATCH', `/databases/${id}`, { body: { display_name: 'x' } })
  expect(renamed.body.storage).toEqual({ autogrow })
  expect((await change(id, {})).body.storage).toEqual({ autogrow })

  const status = { storage: { capacity: '1536Mi', since: '2026-01-01T00:00:00Z' } }
  await reconcile(client.cluster, 'acme', 'later', status)
  await until(async () => (await shown(id)).storage.volume_size === '1536Mi')

  expect((await change(id, { autogrow: null })).body).not.toHaveProperty('storage')
  expect((await storedDatabase(client, 'later')).spec).not.toHaveProperty('storage')
})

test.each([
  [
    'less storage than the size has',
    { ...autogrow, max_size: '500Mi' },
    /^storage.autogrow.max_size: 500Mi must be larger than/,
  ],
  [
    'as much storage as the size has',
    { ...autogrow, max_size: '1Gi' },
    /^storage.autogrow.max_size: 1Gi must be larger than/,
  ],
  ['no maximum', { at_percent: 70 }, /^storage.autogrow.max_size: is required/],
  ['an invalid maximum', { ...autogrow, max_size: 'much' }, /^storage.autogrow.max_size: must be a resource quantity/],
  ['a low threshold', { ...autogrow, at_percent: 10 }, /^storage.autogrow.at_percent: /],
  ['a high threshold', { ...autogrow, at_percent: 99 }, /^storage.autogrow.at_percent: /],
  ['a step of zero', { ...autogrow, step_percent: 0 }, /^storage.autogrow.step_percent: /],
])('400 for %s', async (what, wrong, message) => {
  const id = await createStable(client, `bad${what.replaceAll(/[^a-z]/g, '')}`)
  expectError(await change(id, { autogrow: wrong }), 400, message)
  expectError(await client.create('never', { storage: { autogrow: wrong } }), 400, message)
})
