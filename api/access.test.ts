/** Access control: credentials, other tenants' objects, refused accounts, limits, and the audit log. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion, labels, tenantName, tenantNamespace } from '../crds/index.ts'
import { type Client, createStable, expectError, startClient, until } from './testing/client.ts'
import { type Description, descriptionOf } from './testing/contract.ts'
import { configurationOf, startHarness } from './testing/harness.ts'

let client: Client
let description: Description
beforeAll(async () => {
  client = await startClient()
  description = await descriptionOf(client.app)
})
afterAll(() => client.close())

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'
/** Every operation that needs a token, with these object ids. */
function* operations(
  ids: Record<string, string>,
): Generator<{ method: Method; path: string; template: string; body: unknown }> {
  const bodies: Record<string, unknown> = {
    '/managed/v1/databases': { name: 'probe', region: 'local', size: 'small' },
    '/managed/v1/databases/{id}': { options: ['probe'] },
    '/managed/v1/databases/{id}/backup': { kind: 'hot' },
    '/managed/v1/databases/{id}/restore': { backup_id: ids.backups },
    '/managed/v1/databases/{id}/size': { size: 'large' },
    '/managed/v1/databases/{id}/sql': { text: 'SELECT 1' },
    '/managed/v1/databases/{id}/branches/{branch_id}': { target_time: '2026-01-31T12:00:00Z' },
    '/managed/v1/databases/{id}/branches/{branch_id}/sql': { text: 'SELECT 1' },
  }
  const tries = {
    rest: { method: 'GET', path: 't' },
    mcp: { tool: 't' },
    rag: { pipeline: 'docs', query: 'Why?' },
  }
  for (const [type, body] of Object.entries(tries)) {
    bodies[`/managed/v1/databases/{id}/services/${type}/try`] = body
    bodies[`/managed/v1/databases/{id}/branches/{branch_id}/services/${type}/try`] = body
  }
  for (const [template, methods] of Object.entries(description.paths)) {
    const kind = /\/(?:deleted-)?(databases|backups|tasks|sizes)\/\{id\}/.exec(template)?.[1] ?? ''
    const path = template
      .replace('{id}', ids[kind] ?? 'none')
      .replace('{branch_id}', ids.branches ?? 'none')
      .replace('{role}', 'app')
      .replace('{incarnation}', '1')
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.security !== undefined) continue
      const body = operation.requestBody === undefined ? undefined : bodies[template]
      yield { method: method.toUpperCase() as Method, path: `.${path}`, template, body }
    }
  }
}

async function makeOneOfEach(): Promise<Record<string, string>> {
  const database = await createStable(client, 'theirs')
  const namespace = tenantNamespace('acme')
  const [branch, backup] = [crypto.randomUUID(), crypto.randomUUID()]
  const size = { name: 'small', version: 2 }
  await client.cluster.create('Branch', {
    apiVersion,
    kind: 'Branch',
    metadata: { name: 'theirs-1', namespace, labels: { [labels.id]: branch } },
    spec: { databaseName: 'theirs', databaseId: database, region: 'local', size, pgVersion: '18' },
  })
  await client.cluster.create('Backup', {
    apiVersion,
    kind: 'Backup',
    metadata: { name: 'theirs-1', namespace, labels: { [labels.id]: backup } },
    spec: { databaseName: 'theirs', databaseId: database, kind: 'hot' },
  })
  const { body: tasks } = await client.call('GET', '/tasks')
  const { body: sizes } = await client.call('GET', '/sizes')
  return { databases: database, branches: branch, backups: backup, tasks: tasks[0].id, sizes: sizes[0].id }
}

describe('credentials', () => {
  test('every operation needs a token, except public ones', async () => {
    let count = 0
    for (const { method, path, body } of operations({})) {
      count++
      const answer = await client.call(method, path, { body, token: null })
      expectError(answer, 401, 'a bearer token is required')
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="espalier"')
      for (const authorization of ['Basic YTpi', 'Bearer', 'Bearer ', 'bearer x y', 'Token x', 'x']) {
        expectError(await client.call(method, path, { body, token: null, headers: { authorization } }), 401)
      }
    }
    expect(count).toBe(50)
    for (const path of ['./healthz', './readyz', '/openapi.json', '/login', './docs', './docs/static/swagger-ui.css']) {
      expect((await client.call('GET', path, { token: null })).status, path).toBe(200)
    }
  })
})

describe('objects of another tenant', () => {
  test('cause the same response as missing objects, in every operation', async () => {
    const others = await makeOneOfEach()
    const unknown = Object.fromEntries(Object.keys(others).map(kind => [kind, crypto.randomUUID()]))
    const claims = { tenant: 'globex', sub: 'mallory' }
    const withoutIds = (text: unknown) => JSON.stringify(text)
    const foreign = [...operations(others)]
    const absent = [...operations(unknown)]
    let compared = 0
    for (const [index, { method, path, template, body }] of foreign.entries()) {
      if (!template.includes('{') || template.includes('/sizes/')) continue
      const answer = await client.call(method, path, { body, claims })
      const other = await client.call(method, absent[index]?.path ?? '', { body, claims })
      expectError(answer, 404)
      expect(withoutIds(answer.body), `${method} ${template}`).toBe(withoutIds(other.body))
      compared++
    }
    expect(compared).toBe(38)
    for (const path of [
      '/databases',
      '/backups',
      '/tasks',
      `/tasks?subject_id=${others.databases}`,
      `/tasks?database_id=${others.databases}`,
      `/backups?database_id=${others.databases}`,
    ]) {
      const answer = await client.call('GET', path, { claims })
      expect(answer, path).toMatchObject({ status: 200, body: [] })
      expect(answer.headers['x-total-count']).toBe('0')
    }
    expect(await client.cluster.get('Tenant', { name: tenantName('globex') })).toBeUndefined()
    expect((await client.call('GET', `/databases/${others.databases}`)).body.options).toEqual([])
    for (const [kind, id] of Object.entries(others)) {
      const path = kind === 'branches' ? `/databases/${others.databases}/branches/${id}` : `/${kind}/${id}`
      expect((await client.call('GET', path)).status, path).toBe(200)
    }
  })

  test('a name must be unique only within one tenant', async () => {
    await client.create('mine')
    const body = { name: 'mine', region: 'local', size: 'small' }
    expect((await client.call('POST', '/databases', { body, claims: { tenant: 'initech' } })).status).toBe(200)
    expectError(await client.create('mine'), 400, /^name: another database/)
  })

  test('tenant ids that differ in any character are different tenants', async () => {
    const body = { name: 'same', region: 'local', size: 'small' }
    for (const tenant of ['Tenant', 'tenant', 'tenant ', 'té', '../acme', 'a/b', '💾']) {
      expect((await client.call('POST', '/databases', { body, claims: { tenant } })).status, tenant).toBe(200)
    }
  })
})

describe('accounts', () => {
  const change = async (tenantId: string, spec: object) => {
    const tenant = await client.cluster.get('Tenant', { name: tenantName(tenantId) })
    if (tenant === undefined) throw new Error('no tenant')
    await client.cluster.replace('Tenant', { ...tenant, spec: { ...tenant.spec, ...spec } })
  }
  const begin = async (tenant: string): Promise<string> => {
    const body = { name: 'one', region: 'local', size: 'small' }
    return (await client.call('POST', '/databases', { body, claims: { tenant } })).body.id
  }

  test('every operation refuses a revoked member, even with a token that was verified before', async () => {
    const tenant = 'revoking'
    const id = await begin(tenant)
    await change(tenant, { revokedMembers: ['ada'] })
    const claims = { tenant }
    await until(async () => (await client.call('GET', '/databases', { claims })).status === 403)
    for (const { method, path, body } of operations({ databases: id })) {
      const answer = await client.call(method, path, { body, claims })
      expect(answer).toMatchObject({ status: 403, body: { reason: 'membership_revoked' } })
    }
    expect((await client.call('GET', '/databases', { claims: { tenant, sub: 'bob' } })).status).toBe(200)
  })

  test('an expired plan refuses creates and changes, but allows reads and deletes', async () => {
    const tenant = 'lapsed'
    const id = await begin(tenant)
    const claims = { tenant }
    await change(tenant, { plan: { name: 'standard', expiresAt: '2025-01-01T00:00:00Z' } })
    const patch = () => client.call('PATCH', `/databases/${id}`, { body: { options: [] }, claims })
    await until(async () => (await patch()).status === 403)
    expect(await patch()).toMatchObject({ body: { code: 403, reason: 'plan_expired' } })
    const body = { name: 'two', region: 'local', size: 'small' }
    expect(await client.call('POST', '/databases', { body, claims })).toMatchObject({
      status: 403,
      body: { reason: 'plan_expired' },
    })
    expect(await client.call('POST', `/databases/${id}/backup`, { body: { kind: 'hot' }, claims })).toMatchObject({
      body: { reason: 'plan_expired' },
    })
    expect((await client.call('GET', `/databases/${id}`, { claims })).status).toBe(200)
    expect((await client.call('DELETE', `/databases/${id}`, { claims })).status).toBe(204)
  })

  test('the developer plan refuses backups; other plans receive the reason if backups are not possible', async () => {
    const tenant = 'developing'
    const id = await begin(tenant)
    const claims = { tenant }
    const backup = (at = id, kind = 'hot') => client.call('POST', `/databases/${at}/backup`, { body: { kind }, claims })
    expectError(await backup(), 400, /^kind: region local names no snapshot class/)
    await change(tenant, { plan: { name: 'developer' } })
    await until(async () => (await backup()).status === 403)
    expect(await backup()).toMatchObject({ body: { reason: 'developer_plan_backup' } })
    const durable = await client.call('PATCH', `/databases/${id}`, { body: { backup: { durable: true } }, claims })
    expect(durable).toMatchObject({ status: 403, body: { reason: 'developer_plan_backup' } })
    expectError(await backup(id, 'warm'), 400, /^kind: must be one of hot, durable$/)
    expectError(await backup(crypto.randomUUID()), 404, 'database not found')
  })

  test('an account whose namespace does not exist yet receives a response to retry', async () => {
    const waiting = await startClient({ tenantsBecomeReady: false })
    try {
      setTimeout(() => waiting.stop.abort(), 50)
      const answer = await waiting.create('first')
      expectError(answer, 503, /being set up/)
      expect(answer.headers['retry-after']).toBe('5')
    } finally {
      await waiting.close()
    }
  })

  test('a refused create creates no account', async () => {
    const body = { name: 'one', region: 'moon', size: 'small' }
    expectError(await client.call('POST', '/databases', { body, claims: { tenant: 'nobody' } }), 400, /^region/)
    expect(await client.cluster.get('Tenant', { name: tenantName('nobody') })).toBeUndefined()
  })
})

describe('limits', () => {
  const rateLimits = { tenantPerSecond: 2, tenantBurst: 3, failuresPerSecond: 1, failureBurst: 2 }

  test('a tenant beyond its request rate waits; other tenants do not', async () => {
    let now = Date.now()
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: () => now })
    try {
      const listRegions = (tenant = 'acme') => limited.call('GET', '/regions', { claims: { tenant } })
      for (let n = 0; n < 3; n++) expect((await listRegions()).status).toBe(200)
      const refused = await listRegions()
      expectError(refused, 429)
      expect(refused.headers['retry-after']).toBe('1')
      expect((await listRegions('other')).status).toBe(200)
      now += 500
      expect((await listRegions()).status).toBe(200)
      expect((await listRegions()).status).toBe(429)
    } finally {
      await limited.close()
    }
  })

  test('every response contains the limit and the remaining requests', async () => {
    let now = Date.now()
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: () => now })
    const limitHeaders = async (path = '/regions', options = {}) => {
      const { status, headers } = await limited.call('GET', path, options)
      return [status, headers['ratelimit-policy'], headers.ratelimit, headers['retry-after']]
    }
    const policy = '"account";q=3;w=2'
    try {
      expect(await limitHeaders()).toEqual([200, policy, '"account";r=2;t=1', undefined])
      expect(await limitHeaders('/databases?x=1')).toEqual([400, policy, '"account";r=1;t=1', undefined])
      expect(await limitHeaders('/databases/x')).toEqual([400, policy, '"account";r=0;t=2', undefined])
      expect(await limitHeaders()).toEqual([429, policy, '"account";r=0;t=1', '1'])
      now += 2_000
      expect(await limitHeaders()).toEqual([200, policy, '"account";r=2;t=1', undefined])
      const failures = '"failures";q=2;w=2'
      const refused = { token: 'x' }
      expect(await limitHeaders('/regions', refused)).toEqual([401, failures, '"failures";r=1;t=1', undefined])
      expect(await limitHeaders('/regions', refused)).toEqual([401, failures, '"failures";r=0;t=2', undefined])
      expect(await limitHeaders('/regions', refused)).toEqual([429, failures, '"failures";r=0;t=1', '1'])
      expect(await limitHeaders('./healthz', { token: null })).toEqual([200, undefined, undefined, undefined])
    } finally {
      await limited.close()
    }
  })

  test('refused credentials from one address get 429; valid ones from it are still accepted', async () => {
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: () => 1_800_000_000_000 })
    const good = { exp: 1_800_000_600 }
    try {
      const statuses = []
      for (let n = 0; n < 4; n++)
        statuses.push((await limited.call('POST', '/databases', { token: 'x', body: {} })).status)
      expect(statuses).toEqual([401, 401, 429, 429])
      expect((await limited.call('GET', '/regions', { claims: good })).status).toBe(200)
      // The log does not have each request of the floods, but the attempts before them.
      expect(limited.audit.map(({ status }) => status)).toEqual([401, 401])
    } finally {
      await limited.close()
    }
  })

  test('limits use the socket address, unless a proxy is trusted', async () => {
    const headers = (address: string) => ({ 'x-forwarded-for': address })
    const statusesOf = async (trustedProxies: string[]) => {
      const limited = await startClient({
        configuration: configurationOf({ rateLimits, trustedProxies }),
        now: () => 1_800_000_000_000,
      })
      const statuses = []
      for (let n = 0; n < 4; n++)
        statuses.push(
          (await limited.call('GET', '/regions', { token: 'x', headers: headers(`203.0.113.${n}`) })).status,
        )
      await limited.close()
      return statuses
    }
    expect(await statusesOf([])).toEqual([401, 401, 429, 429])
    expect(await statusesOf(['127.0.0.0/8'])).toEqual([401, 401, 401, 401])
  })
})

describe('audit', () => {
  test('logs every write attempt in one line, without bodies or credentials', async () => {
    const audited = await startClient()
    try {
      const { body, headers } = await audited.create('noted', { display_name: 'NOT-IN-THE-LOG' })
      await audited.call('PATCH', `/databases/${body.id}?token=NOT-IN-THE-LOG`, {
        body: { options: ['NOT-IN-THE-LOG'] },
      })
      await audited.call('DELETE', `/databases/${body.id}`, { headers: { 'x-request-id': 'mine-1' } })
      await audited.call('POST', '/databases', { body: '{', token: null })
      await audited.call('GET', '/databases')
      expect(audited.audit).toMatchObject([
        {
          method: 'POST',
          path: '/managed/v1/databases',
          status: 200,
          outcome: 'accepted',
          tenant: 'acme',
          member: 'ada',
          subject_id: body.id,
          task_id: headers['x-task-id'],
          request_id: headers['x-request-id'],
        },
        {
          method: 'PATCH',
          path: `/managed/v1/databases/${body.id}`,
          status: 400,
          outcome: 'refused',
          subject_id: body.id,
        },
        { method: 'DELETE', status: 204, outcome: 'accepted', request_id: 'mine-1', task_id: expect.any(String) },
        { method: 'POST', status: 401, outcome: 'refused', tenant: undefined },
      ])
      expect(audited.audit).toHaveLength(4)
      const text = JSON.stringify(audited.audit)
      expect(text).not.toContain('NOT-IN-THE-LOG')
      expect(text).not.toMatch(/eyJ/)
    } finally {
      await audited.close()
    }
  })

  test('logs an internal error as an internal error, and sends no details', async () => {
    const faulty = await startHarness()
    const broken = await startClient({ beside: faulty })
    try {
      broken.cluster.before = operation => {
        if (operation === 'create') throw new Error('secret detail')
      }
      const answer = await broken.create('x')
      expectError(answer, 500, /^internal error: search the log for the X-Request-Id of this response$/)
      expect(broken.audit).toMatchObject([{ status: 500, outcome: 'failed' }])
    } finally {
      await broken.close()
      await faulty.close()
    }
  })
})
