/** Requests of a malicious tenant. No request may fill the store or the disk, or use up other tenants' limits. */
import { CompactSign } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClusterError } from '../cluster/index.ts'
import { labels, readOperation, tenantName, tenantNamespace } from '../crds/index.ts'
import { idempotencyComponent } from './idempotency/record.ts'
import { type Client, createStable, expectError, startClient, until } from './testing/client.ts'
import { audience, configurationOf, issuer, reconcile, secret } from './testing/harness.ts'

const namespace = tenantNamespace('acme')
let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const records = async () =>
  (await client.cluster.list('ConfigMap', { namespace, labels: { [labels.component]: idempotencyComponent } })).items

describe('a member that is ignored on input', () => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  const post = (state: string) =>
    client.call('POST', '/databases', {
      body: `{"name":"deep","region":"local","size":"small","ip_allowlist":{"rules":[],"state":${state}}}`,
      headers: { 'idempotency-key': 'deep' },
    })

  test('is not read at any depth, and is not compared between repeated requests', async () => {
    const first = await post(nested(300_000))
    expect(first.status).toBe(200)
    expect((await post('"restricted"')).body).toEqual(first.body)
  })
})

test.each(['a/b', '..', '%2e', 'é', '\ud800', 'a b', '-'])(
  'refuses the unknown region %j, and stores nothing',
  async region => {
    // Names that an API server's client accepts.
    client.cluster.before = (operation, kind) => {
      if (operation === 'get' && kind === 'Region') throw new ClusterError('BadRequest', 'cannot be a name')
    }
    try {
      const body = { name: 'nowhere', region, size: 'small' }
      const before = (await records()).length
      const answer = await client.call('POST', '/databases', {
        body,
        headers: { 'idempotency-key': `in ${region.length}`.replace(' ', '') },
      })
      expectError(answer, 400, 'region: unknown region; available: local')
      expect(await records()).toHaveLength(before)
    } finally {
      client.cluster.before = undefined
    }
  },
)

describe('a restart', () => {
  const restart = (id: string, options: { body?: unknown; key?: string } = {}) =>
    client.call('POST', `/databases/${id}/restart`, {
      ...('body' in options ? { body: options.body } : {}),
      headers: options.key === undefined ? {} : { 'idempotency-key': options.key },
    })
  const stored = async (name: string) => {
    const found = await client.cluster.get('ManagedDatabase', { namespace, name })
    if (found === undefined) throw new Error('the object is missing')
    return found
  }

  test('that is repeated with its key runs once, even long after it has ended', async () => {
    const id = await createStable(client, 'once')
    const first = await restart(id, { key: 'again' })
    expect(first.status).toBe(202)
    const taskId = first.headers['x-task-id']
    expect((await restart(id, { key: 'again' })).headers['x-task-id']).toBe(taskId)
    await reconcile(client.cluster, 'acme', 'once')
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
    const again = await restart(id, { key: 'again' })
    expect(again).toMatchObject({ status: 202, body: first.body, headers: { 'x-task-id': taskId } })
    expect(readOperation(await stored('once'))?.taskId).toBe(taskId)
    expect((await restart(id, { key: 'another' })).headers['x-task-id']).not.toBe(taskId)
  })

  test('that was refused releases its key, and a restart that fails midway resumes under its key', async () => {
    const id = await createStable(client, 'twice')
    await restart(id)
    expectError(await restart(id, { key: 'early' }), 409)
    await reconcile(client.cluster, 'acme', 'twice')
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
    client.cluster.before = (operation, kind) => {
      if (operation === 'replace' && kind === 'ConfigMap') throw new ClusterError('Unavailable', 'gone')
    }
    expectError(await restart(id, { key: 'early' }), 503)
    client.cluster.before = undefined
    const task = readOperation(await stored('twice'))?.taskId
    expect((await restart(id, { key: 'early' })).headers['x-task-id']).toBe(task)
  })

  test.each([
    [{ force: true }, 'force: unknown field'],
    [[], 'body: must be an object'],
    ['"now"', 'body: must be an object'],
  ])('with the body %j is refused', async (body, message) => {
    const id = await createStable(client, `bodied${message.length}${Array.isArray(body) ? 'a' : 'b'}`)
    expectError(await restart(id, { body }), 400, message)
    expect((await restart(id, { body: {} })).status).toBe(202)
  })
})

test.each(['/databases/ID', '/databases/ID/branches/ID', '/backups/ID'])(
  'refuses a DELETE of %s with a body, because the body would be ignored',
  async path => {
    const unknown = path.replaceAll('ID', '0198c0de-0000-7000-8000-000000000009')
    const remove = (body: unknown) => client.call('DELETE', unknown, { body })
    expectError(await remove({ keep_backups: true, force: false }), 400, 'keep_backups: unknown field; force: unknown')
    for (const body of [[], '"now"']) expectError(await remove(body), 400, 'body: must be an object')
    for (const body of [{}, 'null', undefined]) expectError(await remove(body), 404)
  },
)

describe('limits', () => {
  const rateLimits = { tenantPerSecond: 1, tenantBurst: 20, failuresPerSecond: 1, failureBurst: 2 }
  const at = () => 1_800_000_000_000
  const exp = 1_800_000_600

  test("a member whose membership was revoked does not use up the other members' rate limit", async () => {
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: at })
    try {
      const bob = { claims: { sub: 'bob', exp } }
      const body = { name: 'one', region: 'local', size: 'small' }
      expect((await limited.call('POST', '/databases', { body, ...bob })).status).toBe(200)
      const tenant = await limited.cluster.get('Tenant', { name: tenantName('acme') })
      if (tenant === undefined) throw new Error('no tenant')
      await limited.cluster.replace('Tenant', { ...tenant, spec: { ...tenant.spec, revokedMembers: ['ada'] } })
      await until(async () => (await limited.call('GET', '/regions', { claims: { exp } })).status === 403)
      const statuses = []
      for (let n = 0; n < 30; n++) statuses.push((await limited.call('GET', '/regions', { claims: { exp } })).status)
      expect(new Set(statuses)).toEqual(new Set([403, 429]))
      expect((await limited.call('GET', '/regions', bob)).status).toBe(200)
    } finally {
      await limited.close()
    }
  })

  test('the audit log does not have each request that a rate limit refused', async () => {
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: at })
    try {
      for (let n = 0; n < 50; n++)
        await limited.call('DELETE', `/databases/${crypto.randomUUID()}`, { claims: { exp } })
      expect(limited.audit.map(({ status }) => status)).toEqual(Array(20).fill(404))
    } finally {
      await limited.close()
    }
  })
})

describe('a key with a backslash', () => {
  const sign = (payload: string) =>
    new CompactSign(Buffer.from(payload)).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(secret))
  const claims = (last: string, more: object = {}) =>
    `${JSON.stringify({ iss: issuer, aud: audience, exp: 4_000_000_000, sub: 'ada', ...more }).slice(0, -1)},${last}}`
  const base64url = (text: string) => Buffer.from(text).toString('base64url')

  test('in a body or a token does not change how another token is read', async () => {
    // The text that the token below has where "tenant" is meant, up to that length.
    const body = claims('"\\\\u0074":"acme"')
    expectError(
      await client.call('POST', '/databases', { body }),
      400,
      /^body: unknown field with a backslash in its name$/,
    )
    expectError(await client.call('GET', '/regions', { token: `${base64url(body)}.${base64url('{}')}.AAAA` }), 401)
    // Some issuers escape characters without need.
    const answer = await client.call('GET', '/regions', { token: await sign(claims('"\\u0074enant":"acme"')) })
    expect(answer.status).toBe(200)
  })

  test('is not detected in a value', async () => {
    const body = { name: 'slashed', region: 'local', size: 'small', options: ['a\\b', '\\":'] }
    const answer = await client.call('POST', '/databases', { body })
    expect(answer).toMatchObject({ status: 200, body: { options: body.options } })
  })
})
