/** Who gets in: credentials, other tenants' objects, accounts that are refused, limits, and what the audit log says. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion, labels, tenantName, tenantNamespace } from '../crds/index.ts'
import { type Client, createSettled, expectError, startClient, until } from './testing/client.ts'
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
/** Every operation that needs a token, on objects of these ids. */
function* operations(
  ids: Record<string, string>,
): Generator<{ method: Method; path: string; template: string; body: unknown }> {
  const bodies: Record<string, unknown> = {
    '/managed/v1/databases': { name: 'probe', region: 'local', size: 'small' },
    '/managed/v1/databases/{id}': { options: ['probe'] },
    '/managed/v1/databases/{id}/backup': { kind: 'hot' },
    '/managed/v1/databases/{id}/restore': { backup_id: ids.backups },
    '/managed/v1/databases/{id}/size': { size: 'large' },
  }
  for (const [template, methods] of Object.entries(description.paths)) {
    const kind = /\/(databases|backups|tasks|sizes)\/\{id\}/.exec(template)?.[1] ?? ''
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
  const database = await createSettled(client, 'theirs')
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
  test('every operation but the open ones needs one', async () => {
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
    expect(count).toBe(33)
    for (const path of ['./healthz', './readyz', '/openapi.json', './docs', './docs/static/swagger-ui.css']) {
      expect((await client.call('GET', path, { token: null })).status, path).toBe(200)
    }
  })
})

describe('objects of another tenant', () => {
  test('are answered in every operation exactly as objects that do not exist', async () => {
    const theirs = await makeOneOfEach()
    const unknown = Object.fromEntries(Object.keys(theirs).map(kind => [kind, crypto.randomUUID()]))
    const claims = { tenant: 'globex', sub: 'mallory' }
    const withoutIds = (text: unknown) => JSON.stringify(text)
    const foreign = [...operations(theirs)]
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
    expect(compared).toBe(24)
    for (const path of [
      '/databases',
      '/backups',
      '/tasks',
      `/tasks?subject_id=${theirs.databases}`,
      `/backups?database_id=${theirs.databases}`,
    ]) {
      const answer = await client.call('GET', path, { claims })
      expect(answer, path).toMatchObject({ status: 200, body: [] })
      expect(answer.headers['x-total-count']).toBe('0')
    }
    expect(await client.cluster.get('Tenant', { name: tenantName('globex') })).toBeUndefined()
    expect((await client.call('GET', `/databases/${theirs.databases}`)).body.options).toEqual([])
    for (const [kind, id] of Object.entries(theirs)) {
      const path = kind === 'branches' ? `/databases/${theirs.databases}/branches/${id}` : `/${kind}/${id}`
      expect((await client.call('GET', path)).status, path).toBe(200)
    }
  })

  test('a name is taken within one tenant only', async () => {
    await client.create('mine')
    const body = { name: 'mine', region: 'local', size: 'small' }
    expect((await client.call('POST', '/databases', { body, claims: { tenant: 'initech' } })).status).toBe(200)
    expectError(await client.create('mine'), 400, /^name: another database/)
  })

  test('tenant ids that differ in anything are different tenants', async () => {
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

  test('a revoked member is refused in every operation, with a token verified before too', async () => {
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

  test('an expired plan creates and changes nothing; it is still read, and deleted from', async () => {
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

  test('the developer plan takes no backups; the others are told where there can be none', async () => {
    const tenant = 'developing'
    const id = await begin(tenant)
    const claims = { tenant }
    const backup = (at = id, kind = 'hot') => client.call('POST', `/databases/${at}/backup`, { body: { kind }, claims })
    expectError(await backup(), 400, /^kind: region local names no snapshot class/)
    await change(tenant, { plan: { name: 'developer' } })
    await until(async () => (await backup()).status === 403)
    expect(await backup()).toMatchObject({ body: { reason: 'developer_plan_backup' } })
    expectError(await backup(id, 'warm'), 400, /^kind: must be one of hot, durable$/)
    expectError(await backup(crypto.randomUUID()), 404, 'database not found')
  })

  test('one whose namespace does not come is told to try again', async () => {
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

  test('a refused create makes no account', async () => {
    const body = { name: 'one', region: 'moon', size: 'small' }
    expectError(await client.call('POST', '/databases', { body, claims: { tenant: 'nobody' } }), 400, /^region/)
    expect(await client.cluster.get('Tenant', { name: tenantName('nobody') })).toBeUndefined()
  })
})

describe('limits', () => {
  const rateLimits = { tenantPerSecond: 2, tenantBurst: 3, failuresPerSecond: 1, failureBurst: 2 }

  test('a tenant that asks too fast waits; others do not', async () => {
    let now = Date.now()
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: () => now })
    try {
      const ask = (tenant = 'acme') => limited.call('GET', '/regions', { claims: { tenant } })
      for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200)
      const refused = await ask()
      expectError(refused, 429)
      expect(refused.headers['retry-after']).toBe('1')
      expect((await ask('other')).status).toBe(200)
      now += 500
      expect((await ask()).status).toBe(200)
      expect((await ask()).status).toBe(429)
    } finally {
      await limited.close()
    }
  })

  test('every answer says what the limit is and what is left of it', async () => {
    let now = Date.now()
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: () => now })
    const told = async (path = '/regions', options = {}) => {
      const { status, headers } = await limited.call('GET', path, options)
      return [status, headers['ratelimit-policy'], headers.ratelimit, headers['retry-after']]
    }
    const policy = '"account";q=3;w=2'
    try {
      expect(await told()).toEqual([200, policy, '"account";r=2;t=1', undefined])
      expect(await told('/databases?x=1')).toEqual([400, policy, '"account";r=1;t=1', undefined])
      expect(await told('/databases/x')).toEqual([400, policy, '"account";r=0;t=2', undefined])
      expect(await told()).toEqual([429, policy, '"account";r=0;t=1', '1'])
      now += 2_000
      expect(await told()).toEqual([200, policy, '"account";r=2;t=1', undefined])
      const failures = '"failures";q=2;w=2'
      const refused = { token: 'x' }
      expect(await told('/regions', refused)).toEqual([401, failures, '"failures";r=1;t=1', undefined])
      expect(await told('/regions', refused)).toEqual([401, failures, '"failures";r=0;t=2', undefined])
      expect(await told('/regions', refused)).toEqual([429, failures, '"failures";r=0;t=1', '1'])
      expect(await told('./healthz', { token: null })).toEqual([200, undefined, undefined, undefined])
    } finally {
      await limited.close()
    }
  })

  test('refused credentials of one address become 429; good ones from there still come through', async () => {
    const limited = await startClient({ configuration: configurationOf({ rateLimits }), now: () => 1_800_000_000_000 })
    const good = { exp: 1_800_000_600 }
    try {
      const statuses = []
      for (let n = 0; n < 4; n++)
        statuses.push((await limited.call('POST', '/databases', { token: 'x', body: {} })).status)
      expect(statuses).toEqual([401, 401, 429, 429])
      expect((await limited.call('GET', '/regions', { claims: good })).status).toBe(200)
      // The floods are not worth a line each; the attempts before them are.
      expect(limited.audit.map(({ status }) => status)).toEqual([401, 401])
    } finally {
      await limited.close()
    }
  })

  test('limits go by the socket, unless a proxy is trusted', async () => {
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
  test('every attempt to write is one line, without bodies or credentials', async () => {
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

  test('a fault of ours is noted as one, and tells the caller nothing', async () => {
    const faulty = await startHarness()
    const broken = await startClient({ beside: faulty })
    try {
      broken.cluster.before = operation => {
        if (operation === 'create') throw new Error('secret detail')
      }
      const answer = await broken.create('x')
      expectError(answer, 500, /^internal error: the log says more, under the X-Request-Id of this answer$/)
      expect(broken.audit).toMatchObject([{ status: 500, outcome: 'failed' }])
    } finally {
      await broken.close()
      await faulty.close()
    }
  })
})
