/**
 * Every refusal that any request can meet, driven at every operation that the description has: each answer is one that is described there, in the shape of
 * an error. What is peculiar to one operation is driven where it is tested.
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
      // The keys of a path item are the methods that a client knows.
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

/** The example of what it takes. */
function bodyOf({ requestBody }: DocumentedOperation): unknown {
  const { $ref = '' } = requestBody?.content['application/json'].schema ?? {}
  return description.components.schemas[String($ref).split('/').at(-1) ?? '']?.example
}

const needsToken = ({ operation }: Case): boolean => operation.security === undefined
const takesBody = ({ method }: Case): boolean => method !== 'GET'
const hasObject = ({ path }: Case): boolean => path.includes('0198c0de')

/** Asks each operation that is meant; `client.call` holds every answer to the description. */
async function drive(
  isMeant: (one: Case) => boolean,
  status: number | readonly number[],
  more: (one: Case) => Parameters<Client['call']>[2] & { query?: string },
  asked = client,
): Promise<void> {
  let driven = 0
  for (const one of cases.filter(isMeant)) {
    const { query = '', ...rest } = { body: one.body, ...more(one) }
    const answer = await asked.call(one.method, `${one.path}${query}`, rest)
    expect([status].flat(), `${one.operation.operationId}: ${JSON.stringify(answer.body)}`).toContain(answer.status)
    if (answer.status >= 400) expectError(answer, answer.status)
    driven++
  }
  expect(driven).toBeGreaterThan(0)
}

describe('at every operation that it can meet', () => {
  test('400: a parameter that nobody knows, a body that is no JSON', async () => {
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

  test('401: no credential, and one that is none', async () => {
    await drive(needsToken, 401, () => ({ token: null }))
    await drive(needsToken, 401, () => ({ token: 'a.b.c' }))
  })

  test('403: a member who is none any more, and a plan that is over', async () => {
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

  test('404: an object that is not there, and one of another account', async () => {
    await drive(hasObject, 404, () => ({}))
    await drive(hasObject, 404, () => ({ claims: { tenant: 'nobody' } }))
  })

  test('413 and 415: a body that is too long, and one of another type', async () => {
    const isMeant = (one: Case) => takesBody(one) && needsToken(one)
    await drive(isMeant, 413, () => ({ body: `"${'a'.repeat(1024 * 1024)}"` }))
    await drive(isMeant, 415, () => ({ body: '<a/>', headers: { 'content-type': 'application/xml' } }))
  })

  test('429: more than an account may ask', async () => {
    const rateLimits = { tenantPerSecond: 0.001, tenantBurst: 1, failuresPerSecond: 1000, failureBurst: 1000 }
    const slow = await startClient({ configuration: configurationOf({ rateLimits }) })
    try {
      expect((await slow.call('GET', '/sizes')).status).toBe(200)
      await drive(needsToken, 429, () => ({}), slow)
    } finally {
      await slow.close()
    }
  })

  test('503: a cluster that does not answer, where it has to be asked', async () => {
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
