/** A database that only `kubectl` manages: applying a resource has the same result and the same messages as the API. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { apiVersion } from '../../crds/index.ts'
import { type ApiClient, type Database, eventually, openTo, query } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'

const tenant = 'by-hand'
let provider: KindProvider
let api: ApiClient
let namespace: string

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client(tenant)
  namespace = provider.namespace(tenant)
  // A tenant's first write creates its namespace. A database that is deleted again costs least.
  const { body } = await api.create({ name: 'first' })
  await api.remove(body.id)
})
afterAll(() => provider?.stop())

const manifest = (name: string, spec: object = {}): string =>
  stringify({
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: { name, namespace },
    spec: {
      region: 'local',
      size: { name: 'nano', version: 1 },
      pgVersion: '17',
      ipAllowlist: openTo(provider.clientAddress),
      ...spec,
    },
  })

const kubectl = (args: string[], input?: string) => provider.kubectl(args, input)
const refusal = (input: string) => kubectl(['apply', '-f', '-'], input).then(() => 'applied', String)

test('apply, wait, connect, edit and delete', async () => {
  await kubectl(['apply', '-f', '-'], manifest('applied'))
  await kubectl(['wait', '--for=condition=Ready', 'manageddatabase/applied', '-n', namespace, '--timeout=120s'])

  // The API's own watch sees a change shortly before or after kubectl.
  const database = await eventually(
    'the API reports the applied database as available',
    async () => {
      const { body } = await api.call<Database[]>('GET', '/databases')
      return body.find(({ name, status }) => name === 'applied' && status === 'available')
    },
    10_000,
  )
  expect(database).toMatchObject({ pg_version: '17' })
  const connection = await api.connection(database.id)
  expect(await query(connection, 'SELECT current_user AS "user"')).toEqual([{ user: 'app' }])

  const patch = JSON.stringify({ spec: { ipAllowlist: { rules: [] } } })
  await kubectl(['patch', 'mdb', 'applied', '-n', namespace, '--type=merge', '-p', patch])
  await eventually('the gateway refuses the client', () =>
    query(connection, 'SELECT 1').then(
      () => false,
      error => error.code === '28000',
    ),
  )

  await kubectl(['delete', 'mdb', 'applied', '-n', namespace, '--timeout=120s'])
  expect(await kubectl(['get', 'statefulsets,pvc,secrets', '-n', namespace, '-o', 'name'])).toBe('')
}, 240_000)

test('a second apply of the same resource changes nothing', async () => {
  await kubectl(['apply', '-f', '-'], manifest('twice'))
  await kubectl(['wait', '--for=condition=Ready', 'mdb/twice', '-n', namespace, '--timeout=120s'])
  const generation = () => kubectl(['get', 'mdb', 'twice', '-n', namespace, '-o', 'jsonpath={.metadata.generation}'])
  const before = await generation()
  await kubectl(['apply', '-f', '-'], manifest('twice'))
  expect(await generation()).toBe(before)
  await kubectl(['delete', 'mdb', 'twice', '-n', namespace, '--timeout=120s'])
}, 240_000)

test('printer columns show the important fields', async () => {
  await kubectl(['apply', '-f', '-'], manifest('columns'))
  await kubectl(['wait', '--for=condition=Ready', 'mdb/columns', '-n', namespace, '--timeout=120s'])
  const [header, row] = (await kubectl(['get', 'mdb', 'columns', '-n', namespace])).trim().split('\n')
  expect(header?.split(/ {2,}/)).toEqual(['NAME', 'PHASE', 'READY', 'VERSION', 'SIZE', 'PORT', 'AGE'])
  expect(row).toMatch(/^columns +available +True +17 +nano +\d+ +\S+$/)
  await kubectl(['delete', 'mdb', 'columns', '-n', namespace, '--timeout=120s'])
}, 240_000)

test('explain describes the fields', async () => {
  const spec = await kubectl(['explain', 'manageddatabase.spec', '--api-version=espalier.dev/v1alpha1'])
  for (const field of ['ipAllowlist', 'pgVersion', 'deletionProtection', 'suspended']) expect(spec).toContain(field)
  expect(spec).toContain('Which addresses may reach the Postgres endpoint')
})

test('bad input is refused with the field and the rule', async () => {
  expect(await refusal(manifest('Upper'))).toContain('metadata.name')
  expect(await refusal(manifest('wrong', { pgVersion: '9' }))).toContain('spec.pgVersion')
  expect(await refusal(manifest('wrong', { ipAllowlist: { rules: [{ cidr: '300.1.1.1' }] } }))).toContain('cidr')
  expect(await refusal(manifest('wrong', { surprise: 1 }))).toContain('surprise')
})

test('changes of immutable fields are refused, and a protected database is not deleted', async () => {
  await kubectl(['apply', '-f', '-'], manifest('kept', { deletionProtection: true }))
  expect(await refusal(manifest('kept', { deletionProtection: true, pgVersion: '18' }))).toContain('immutable')
  const deleted = kubectl(['delete', 'mdb', 'kept', '-n', namespace, '--timeout=5s'])
  await expect(deleted).rejects.toThrow(/protect/i)
  await kubectl(['apply', '-f', '-'], manifest('kept', { deletionProtection: false }))
  await kubectl(['delete', 'mdb', 'kept', '-n', namespace, '--timeout=120s'])
}, 240_000)

test("a tenant's limit applies to kubectl, and the API reports it as a limit", async () => {
  const name = `t-${namespace.slice('espalier-t-'.length)}`
  const limit = (databases: number) =>
    kubectl(['patch', 'tenant', name, '--type=merge', '-p', JSON.stringify({ spec: { limits: { databases } } })])
  const inForce = (databases: number) =>
    eventually(`the ResourceQuota allows ${databases} databases`, async () => {
      const path = 'jsonpath={.status.hard.count/manageddatabases\\.espalier\\.dev}'
      return (await kubectl(['get', 'quota', 'espalier-limits', '-n', namespace, '-o', path])) === `${databases}`
    })
  await limit(0)
  try {
    await inForce(0)
    expect(await refusal(manifest('beyond'))).toContain('exceeded quota: espalier-limits')
    const { status, body } = await api.call<{ message: string }>('POST', '/databases', {
      name: 'beyond',
      region: 'local',
      size: 'nano',
    })
    expect([status, body.message]).toEqual([403, 'the account has reached its limit of 0 databases'])
  } finally {
    await limit(20)
    await inForce(20)
  }
})

test("the API's metrics are on its pods but not behind its Service", async () => {
  const pods = ['get', 'pods', '-n', 'espalier-system', '-l', 'app.kubernetes.io/component=api', '-o', 'name']
  const pod = (await kubectl(pods)).trim().split('\n')[0]?.split('/')[1]
  const page = await kubectl(['get', '--raw', `/api/v1/namespaces/espalier-system/pods/${pod}:8080/proxy/metrics`])
  expect(page).toMatch(/^espalier_api_cache_synced\{kind="ManagedDatabase"\} 1$/m)
  expect(page).toMatch(/^nodejs_eventloop_lag_p99_seconds /m)
  const service = ['get', 'service', 'espalier-api', '-n', 'espalier-system', '-o', 'jsonpath={.spec.ports[*].port}']
  expect(await kubectl(service)).not.toContain('8080')
})
