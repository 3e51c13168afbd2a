/**
 * Tests every error that any request can cause, at every operation of the API description. The description must contain
 * each response, with the usual error body. Errors of single operations are tested with the operation.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClusterError } from '../cluster/index.ts'
import { tenantName } from '../crds/index.ts'
import { type Client, expectError, startClient } from './testing/client.ts'
import { type Description, type DocumentedOperation, descriptionOf } from './testing/contract.ts'
import { configurationOf } from './testing/harness.ts'

type Method = Parameters<Client['call']>[0]
type Case = { method: Method; path: string; operation: DocumentedOperation; body: unknown }

let client: Client
let description: Description
let cases: Case[]
beforeAll(async () => {
  client = await startClient()
  await client.create('first')
  description = await descriptionOf(client.app)
  cases = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      // Keys of a path item are method names.
      method: method.toUpperCase() as Method,
      path: `.${path
        .replace('{role}', 'app')
        .replace('{incarnation}', '1')
        .replaceAll(/\{\w+\}/g, '0198c0de-0000-7000-8000-000000000001')}`,
      operation,
      body: bodyOf(operation),
    })),
  )
  expect(cases.length).toBeGreaterThan(30)
})
afterAll(() => client.close())

/** The example of the operation's request body. */
function bodyOf({ requestBody }: DocumentedOperation): unknown {
  const { $ref = '' } = requestBody?.content['application/json'].schema ?? {}
  return description.components.schemas[String($ref).split('/').at(-1) ?? '']?.example
}

const needsToken = ({ operation }: Case): boolean => operation.security === undefined
const takesBody = ({ method }: Case): boolean => method !== 'GET'
const hasObject = ({ path }: Case): boolean => path.includes('0198c0de')

/** Calls each selected operation; `client.call` checks every response against the description. */
async function drive(
  isMeant: (one: Case) => boolean,
  status: number | readonly number[],
  more: (one: Case) => Parameters<Client['call']>[2] & { query?: string },
  caller = client,
): Promise<void> {
  let driven = 0
  for (const one of cases.filter(isMeant)) {
    const { query = '', ...rest } = { body: one.body, ...more(one) }
    const answer = await caller.call(one.method, `${one.path}${query}`, rest)
    expect([status].flat(), `${one.operation.operationId}: ${JSON.stringify(answer.body)}`).toContain(answer.status)
    if (answer.status >= 400) expectError(answer, answer.status)
    driven++
  }
  expect(driven).toBeGreaterThan(0)
}

describe('at every operation that can return it', () => {
  test('400: an unknown parameter, a body that is not JSON', async () => {
    await drive(
      () => true,
      400,
      () => ({ query: '?nonsense=1' }),
    )
    await drive(
      one => takesBody(one) && needsToken(one),
      400,
      () => ({
        body: '{',
        headers: { 'content-type': 'application/json' },
      }),
    )
  })

  test('401: a missing credential, and an invalid credential', async () => {
    await drive(needsToken, 401, () => ({ token: null }))
    await drive(needsToken, 401, () => ({ token: 'a.b.c' }))
  })

  test('403: a revoked member, and an expired plan', async () => {
    const tenantOf = async () => {
      const tenant = await client.cluster.get('Tenant', { name: tenantName('acme') })
      if (tenant === undefined) throw new Error('no tenant')
      return tenant
    }
    const tenant = await tenantOf()
    await client.cluster.replace('Tenant', { ...tenant, spec: { ...tenant.spec, revokedMembers: ['eve'] } })
    await expect.poll(async () => (await client.call('GET', '/sizes', { claims: { sub: 'eve' } })).status).toBe(403)
    await drive(needsToken, 403, () => ({ claims: { sub: 'eve' } }))
  })

  test('404: a missing object, and an object of another account', async () => {
    await drive(hasObject, 404, () => ({}))
    await drive(hasObject, 404, () => ({ claims: { tenant: 'nobody' } }))
  })

  test('413 and 415: a body that is too long, and a body of another type', async () => {
    const isMeant = (one: Case) => takesBody(one) && needsToken(one)
    await drive(isMeant, 413, () => ({ body: `"${'a'.repeat(1024 * 1024)}"` }))
    await drive(isMeant, 415, () => ({ body: '<a/>', headers: { 'content-type': 'application/xml' } }))
  })

  test("429: over the account's rate limit", async () => {
    const rateLimits = { tenantPerSecond: 0.001, tenantBurst: 1, failuresPerSecond: 1000, failureBurst: 1000 }
    const slow = await startClient({ configuration: configurationOf({ rateLimits }) })
    try {
      expect((await slow.call('GET', '/sizes')).status).toBe(200)
      await drive(needsToken, 429, () => ({}), slow)
    } finally {
      await slow.close()
    }
  })

  test('503: an operation must read the cluster, which does not respond', async () => {
    client.cluster.before = () => {
      throw new ClusterError('Unavailable', 'gone')
    }
    try {
      await drive(hasObject, [503, 404], () => ({}))
      await drive(
        one => takesBody(one) && !hasObject(one),
        503,
        () => ({ headers: { 'idempotency-key': 'k' } }),
      )
    } finally {
      client.cluster.before = undefined
    }
  })
})
