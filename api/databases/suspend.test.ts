/** Suspending and resuming databases through the API, on the one-machine store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DatabasePhase, readOperation } from '../../crds/index.ts'
import { type Client, createSettled, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { settle } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const ask = (id: string, what: 'suspend' | 'resume', headers: Record<string, string> = {}) =>
  client.call('POST', `/databases/${id}/${what}`, { headers })
const shown = async (id: string) => (await client.call('GET', `/databases/${id}`)).body

/** What the operator says once it has come as far as this. */
async function become(name: string, phase: DatabasePhase): Promise<string> {
  await settle(client.cluster, 'acme', name, { phase })
  const id = (await storedDatabase(client, name)).metadata.labels?.['espalier.dev/id'] ?? ''
  await until(async () => (await shown(id)).status === phase)
  return id
}

test('each is 202 with its task, and keeps allowlist, address and password', async () => {
  const rules = [{ cidr: '203.0.113.7/32', label: 'office' }]
  const id = await createSettled(client, 'paused', { ip_allowlist: { rules } })
  const before = await shown(id)

  const asked = await ask(id, 'suspend')
  expect(asked).toMatchObject({ status: 202, body: { id, status: 'suspending' } })
  const taskId = asked.headers['x-task-id']
  expect(asked.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
  const stored = await storedDatabase(client, 'paused')
  expect(stored.spec.suspended).toBe(true)
  expect(readOperation(stored)).toMatchObject({ name: 'suspend-managed', taskId })
  expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({ name: 'suspend-managed', request: {} })
  for (const what of ['suspend', 'resume'] as const) expectError(await ask(id, what), 409, /the database is suspending/)

  await become('paused', 'suspended')
  const { ip_allowlist, port, domain, connection } = before
  expect(await shown(id)).toMatchObject({ status: 'suspended', ip_allowlist, port, domain, connection })

  const resumed = await ask(id, 'resume')
  expect(resumed).toMatchObject({ status: 202, body: { status: 'resuming' } })
  expect(readOperation(await storedDatabase(client, 'paused'))).toMatchObject({
    name: 'resume-managed',
    taskId: resumed.headers['x-task-id'],
  })
  for (const what of ['suspend', 'resume'] as const) expectError(await ask(id, what), 409, /the database is resuming/)
  await become('paused', 'available')
  expect(await shown(id)).toMatchObject({ status: 'available', ip_allowlist, port, domain, connection })
})

describe('409, with the reason', () => {
  test.each<['suspend' | 'resume', DatabasePhase, boolean, RegExp]>([
    ['suspend', 'suspended', true, /the database is suspended already/],
    ['suspend', 'degraded', true, /the database is suspended already/],
    ['suspend', 'creating', false, /the database is creating: wait/],
    ['suspend', 'restoring', false, /the database is restoring: wait/],
    ['suspend', 'failed', false, /the database is failed: it takes no such change/],
    ['resume', 'available', false, /the database is not suspended/],
    ['resume', 'failed', false, /the database is not suspended/],
    ['resume', 'creating', true, /the database is creating: wait/],
  ])('to %s one that is %s', async (what, phase, suspended, message) => {
    const name = `no${what}${phase}${suspended}`
    const id = await createSettled(client, name)
    const stored = await storedDatabase(client, name)
    await client.cluster.replace('ManagedDatabase', { ...stored, spec: { ...stored.spec, suspended } })
    await become(name, phase)
    expectError(await ask(id, what), 409, message)
  })

  test('of one that is being deleted', async () => {
    const id = await createSettled(client, 'going')
    const stored = await storedDatabase(client, 'going')
    const metadata = { ...stored.metadata, finalizers: ['espalier.dev/teardown'] }
    await client.cluster.replace('ManagedDatabase', { ...stored, metadata })
    await client.call('DELETE', `/databases/${id}`)
    for (const what of ['suspend', 'resume'] as const) expectError(await ask(id, what), 409, /the database is deleting/)
  })

  test('a change of one that is suspended says what to do', async () => {
    const id = await createSettled(client, 'still')
    await become('still', 'suspended')
    const change = await client.call('PATCH', `/databases/${id}`, { body: { ip_allowlist: { rules: [] } } })
    expect(change.status).toBe(200)
    const opened = { ip_allowlist: { rules: [{ cidr: '1.1.1.1' }] } }
    expectError(await client.call('PATCH', `/databases/${id}`, { body: opened }), 409, /is suspended: resume it/)
  })
})

test('a resize of one that is suspended is waited for, and not resumed meanwhile', async () => {
  const id = await createSettled(client, 'resized')
  await ask(id, 'suspend')
  await become('resized', 'suspended')
  const resized = client.call('POST', `/databases/${id}/size`, {
    body: { size: 'large' },
    headers: { prefer: 'wait=30' },
  })
  await until(async () => (await storedDatabase(client, 'resized')).spec.size.name === 'large')
  expect((await shown(id)).status).toBe('suspended')
  expectError(await ask(id, 'resume'), 409, /^another operation is under way for the suspended database/)
  const answered = await Promise.race([resized, new Promise(resolve => setTimeout(resolve, 300, 'held'))])
  expect(answered).toBe('held')
  await become('resized', 'suspended')
  expect((await resized).status).toBe(204)
  expect((await ask(id, 'resume')).status).toBe(202)
})

test.each(['degraded', 'failed'] as const)('one that is %s, and was to be suspended, is resumed', async phase => {
  const name = `stuck${phase}`
  const id = await createSettled(client, name)
  await ask(id, 'suspend')
  await become(name, phase)
  expect((await ask(id, 'resume')).status).toBe(202)
  expect((await storedDatabase(client, name)).spec.suspended).toBe(false)
})

test('404 for nothing, 400 for a body or a query', async () => {
  expectError(await ask('00000000-0000-4000-8000-000000000000', 'suspend'), 404, /database/)
  const id = await createSettled(client, 'queried')
  expectError(await client.call('POST', `/databases/${id}/suspend?now=1`), 400, /now/)
  expectError(await client.call('POST', `/databases/${id}/suspend`, { body: { now: true } }), 400, /^now/)
})

test('with an Idempotency-Key each is done once', async () => {
  const id = await createSettled(client, 'once')
  const first = await ask(id, 'suspend', { 'idempotency-key': 'suspend-once' })
  const again = await ask(id, 'suspend', { 'idempotency-key': 'suspend-once' })
  expect([first.status, again.status]).toEqual([202, 202])
  expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
  await become('once', 'suspended')
  expectError(await ask(id, 'resume', { 'idempotency-key': 'suspend-once' }), 400, /Idempotency-Key/)
})
