/** Suspending and resuming databases through the API, on the in-process store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DatabasePhase, readOperation } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const sendAction = (id: string, what: 'suspend' | 'resume', headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/${what}`, { headers })
const shown = async (id: string) => (await client.call('GET', `/databases/${id}`)).body

/** Sets the operator's status after the database has reached this state. */
async function become(name: string, phase: DatabasePhase): Promise<string> {
  await reconcile(client.cluster, 'acme', name, { phase })
  const id = (await storedDatabase(client, name)).metadata.labels?.['espalier.dev/id'] ?? ''
  await until(async () => (await shown(id)).status === phase)
  return id
}

test('suspend and resume return 202 with a task, and keep allowlist, address and password', async () => {
  const rules = [{ cidr: '203.0.113.7/32', label: 'office' }]
  const id = await createStable(client, 'paused', { ip_allowlist: { rules } })
  const before = await shown(id)

  const requested = await sendAction(id, 'suspend')
  expect(requested).toMatchObject({ status: 202, body: { id, status: 'suspending' } })
  const taskId = requested.headers['x-task-id']
  expect(requested.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
  const stored = await storedDatabase(client, 'paused')
  expect(stored.spec.suspended).toBe(true)
  expect(readOperation(stored)).toMatchObject({ name: 'suspend-managed', taskId })
  expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({ name: 'suspend-managed', request: {} })
  for (const what of ['suspend', 'resume'] as const)
    expectError(await sendAction(id, what), 409, /the database is suspending/)

  await become('paused', 'suspended')
  const { ip_allowlist, port, domain, connection } = before
  expect(await shown(id)).toMatchObject({ status: 'suspended', ip_allowlist, port, domain, connection })

  const resumed = await sendAction(id, 'resume')
  expect(resumed).toMatchObject({ status: 202, body: { status: 'resuming' } })
  expect(readOperation(await storedDatabase(client, 'paused'))).toMatchObject({
    name: 'resume-managed',
    taskId: resumed.headers['x-task-id'],
  })
  for (const what of ['suspend', 'resume'] as const)
    expectError(await sendAction(id, what), 409, /the database is resuming/)
  await become('paused', 'available')
  expect(await shown(id)).toMatchObject({ status: 'available', ip_allowlist, port, domain, connection })
})

describe('returns 409 with the reason', () => {
  test.each<['suspend' | 'resume', DatabasePhase, boolean, RegExp]>([
    ['suspend', 'suspended', true, /the database is already suspended/],
    ['suspend', 'degraded', true, /the database is already suspended/],
    ['suspend', 'creating', false, /the database is creating: wait/],
    ['suspend', 'restoring', false, /the database is restoring: wait/],
    ['suspend', 'failed', false, /the database is failed: it does not accept this change/],
    ['resume', 'available', false, /the database is not suspended/],
    ['resume', 'failed', false, /the database is not suspended/],
    ['resume', 'creating', true, /the database is creating: wait/],
  ])('%s if the database is %s', async (what, phase, suspended, message) => {
    const name = `no${what}${phase}${suspended}`
    const id = await createStable(client, name)
    const stored = await storedDatabase(client, name)
    await client.cluster.replace('ManagedDatabase', { ...stored, spec: { ...stored.spec, suspended } })
    await become(name, phase)
    expectError(await sendAction(id, what), 409, message)
  })

  test('for a database that is being deleted', async () => {
    const id = await createStable(client, 'going')
    const stored = await storedDatabase(client, 'going')
    const metadata = { ...stored.metadata, finalizers: ['espalier.dev/teardown'] }
    await client.cluster.replace('ManagedDatabase', { ...stored, metadata })
    await client.call('DELETE', `/databases/${id}`)
    for (const what of ['suspend', 'resume'] as const)
      expectError(await sendAction(id, what), 409, /the database is deleting/)
  })

  test('refuses a change of a suspended database, and names the required action', async () => {
    const id = await createStable(client, 'still')
    await become('still', 'suspended')
    const change = await client.call('PATCH', `/databases/${id}`, { body: { ip_allowlist: { rules: [] } } })
    expect(change.status).toBe(200)
    const opened = { ip_allowlist: { rules: [{ cidr: '1.1.1.1' }] } }
    expectError(await client.call('PATCH', `/databases/${id}`, { body: opened }), 409, /is suspended: resume it/)
  })
})

test('a resize of a suspended database blocks other operations, including resume', async () => {
  const id = await createStable(client, 'resized')
  await sendAction(id, 'suspend')
  await become('resized', 'suspended')
  const resized = client.call('POST', `/databases/${id}/size`, {
    body: { size: 'large' },
    headers: { prefer: 'wait=30' },
  })
  await until(async () => (await storedDatabase(client, 'resized')).spec.size.name === 'large')
  expect((await shown(id)).status).toBe('suspended')
  expectError(await sendAction(id, 'resume'), 409, /^another operation is running for the suspended database/)
  const answered = await Promise.race([resized, new Promise(resolve => setTimeout(resolve, 300, 'held'))])
  expect(answered).toBe('held')
  await become('resized', 'suspended')
  expect((await resized).status).toBe(204)
  expect((await sendAction(id, 'resume')).status).toBe(202)
})

test.each(['degraded', 'failed'] as const)('resumes a database that became %s during its suspension', async phase => {
  const name = `stuck${phase}`
  const id = await createStable(client, name)
  await sendAction(id, 'suspend')
  await become(name, phase)
  expect((await sendAction(id, 'resume')).status).toBe(202)
  expect((await storedDatabase(client, name)).spec.suspended).toBe(false)
})

test('causes a 404 for a missing database, and a 400 for a body or a query', async () => {
  expectError(await sendAction('00000000-0000-4000-8000-000000000000', 'suspend'), 404, /database/)
  const id = await createStable(client, 'queried')
  expectError(await client.call('POST', `/databases/${id}/suspend?now=1`), 400, /now/)
  expectError(await client.call('POST', `/databases/${id}/suspend`, { body: { now: true } }), 400, /^now/)
})

test('each runs once for one Idempotency-Key', async () => {
  const id = await createStable(client, 'once')
  const first = await sendAction(id, 'suspend', { 'idempotency-key': 'suspend-once' })
  const again = await sendAction(id, 'suspend', { 'idempotency-key': 'suspend-once' })
  expect([first.status, again.status]).toEqual([202, 202])
  expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
  await become('once', 'suspended')
  expectError(await sendAction(id, 'resume', { 'idempotency-key': 'suspend-once' }), 400, /Idempotency-Key/)
})
