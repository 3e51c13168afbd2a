/** The life cycle of a database through the API, as a user sees it. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkout } from '../embedded/settings.ts'
import { type ApiClient, connect, type Database, eventually, openTo, query, sqlState } from './client.ts'
import { startProvider, testedVersions } from './provider.ts'
import type { Provider } from './providers/provider.ts'

let provider: Provider
let api: ApiClient
let openToThisMachine: ReturnType<typeof openTo>
beforeAll(async () => {
  provider = await startProvider()
  openToThisMachine = openTo(provider.clientAddress)
  api = await provider.client()
})
afterAll(() => provider?.stop())

describe.each(testedVersions)('Postgres %s', pg_version => {
  let database: Database
  beforeAll(async () => {
    const created = await api.create({ name: `pg${pg_version}`, pg_version, ip_allowlist: openToThisMachine })
    expect(created).toMatchObject({ status: 200, body: { status: 'available', pg_version } })
    database = created.body
  })
  afterAll(() => api.remove(database.id))

  test('answers a real client, in this version, with checksums, SCRAM and TLS', async () => {
    const [row] = await query(
      await api.connection(database.id),
      `SELECT current_setting('server_version_num')::int / 10000 AS major, current_user AS "user",
              current_setting('data_checksums') AS checksums, current_setting('password_encryption') AS encryption,
              ssl, version AS tls FROM pg_stat_ssl WHERE pid = pg_backend_pid()`,
    )
    expect(row).toEqual({
      major: Number(pg_version),
      user: 'app',
      checksums: 'on',
      encryption: 'scram-sha-256',
      ssl: true,
      tls: 'TLSv1.3',
    })
  })

  test('`espalier connect` finds it by its name, and verifies it', async () => {
    const cache = await mkdtemp(join(tmpdir(), 'espalier-e2e-connect-'))
    const environment = {
      PATH: process.env.PATH,
      XDG_CACHE_HOME: cache,
      ESPALIER_API_URL: provider.api,
      ESPALIER_TOKEN: await provider.token(),
      // If the API runs on a cluster, this process's environment names its authority.
      ESPALIER_API_CA: process.env.NODE_EXTRA_CA_CERTS,
    }
    try {
      const args = [join(checkout, 'bin/espalier.mjs'), 'connect', database.name, '--role', 'admin', '--print']
      const { stdout } = await promisify(execFile)(process.execPath, args, { env: environment })
      const client = new pg.Client(stdout.trim())
      await client.connect()
      const { rows } = await client.query('SELECT current_user AS role').finally(() => client.end())
      expect(rows).toEqual([{ role: 'admin' }])
    } finally {
      await rm(cache, { recursive: true })
    }
  })

  test('reports metrics by the minute', async () => {
    type Metrics = { series: { name: string; columns: string[]; values: (string | number | null)[][] }[] }
    const read = async (parameters = '') => api.call<Metrics>('GET', `/databases/${database.id}/metrics${parameters}`)
    const newest = async (name: string) =>
      (await read()).body.series?.find(series => series.name === name)?.values.at(-1)
    await eventually('the database has a first sample', async () => (await newest('database'))?.[1] !== undefined)
    expect(await newest('connections')).toEqual([expect.any(String), ...Array(5).fill(expect.any(Number))])
    expect((await newest('volume'))?.[1]).toBeGreaterThan(0)
    const before = await read('?interval=1 hour&start_time=2026-01-01T00:00:00Z&end_time=2026-01-02T00:00:00Z')
    expect(before).toMatchObject({ status: 200 })
    expect(before.body.series.flatMap(({ values }) => values)).toEqual([])
    expect((await read('?interval=often')).status).toBe(400)
  })

  test('refuses a connection without TLS', async () => {
    const connection = await api.connection(database.id)
    expect(await sqlState(() => connect(connection, { ssl: false }))).toBe('28000')
  })

  test('refuses a wrong password', async () => {
    const connection = { ...(await api.connection(database.id)), password: 'wrong' }
    expect(await sqlState(() => connect(connection))).toBe('28P01')
  })

  test("app owns the database, app_read_only reads app's tables, admin administers", async () => {
    const app = await api.connection(database.id, 'application')
    const reader = await api.connection(database.id, 'application_read_only')
    const admin = await api.connection(database.id, 'admin')
    expect([app.username, reader.username, admin.username]).toEqual(['app', 'app_read_only', 'admin'])
    await query(
      app,
      'CREATE SCHEMA fruit; CREATE TABLE fruit.pear AS SELECT 1 AS n; CREATE TABLE quince AS SELECT 2 AS n',
    )
    expect(await query(reader, 'SELECT p.n + q.n AS n FROM fruit.pear p, quince q')).toEqual([{ n: 3 }])
    expect(await sqlState(() => query(reader, 'INSERT INTO quince VALUES (3)'))).toBe('25006')
    const writing = 'BEGIN READ WRITE; INSERT INTO quince VALUES (3)'
    expect(await sqlState(() => query(reader, writing))).toBe('42501')
    expect(await sqlState(() => query(reader, 'SELECT rolpassword FROM pg_authid'))).toBe('42501')
    await query(admin, 'CREATE ROLE gardener LOGIN')
    await query(admin, 'CREATE DATABASE orchard')
    expect(await sqlState(() => query(admin, 'CREATE ROLE king SUPERUSER'))).toBe('42501')
    expect(await sqlState(() => query(admin, "COPY (SELECT 1) TO PROGRAM 'true'"))).toBe('42501')
  })

  test("provides its size's connections to application roles", async () => {
    const connection = await api.connection(database.id)
    const clients = await Promise.all(Array.from({ length: 20 }, () => connect(connection)))
    const refused = await sqlState(() => connect(connection))
    await Promise.all(clients.map(client => client.end()))
    expect(refused).toBe('53300')
  })
})

describe('allowlist', () => {
  test('a new database is closed, and refuses clients with a Postgres error', async () => {
    const { body } = await api.create({ name: 'closed' })
    expect(body.ip_allowlist).toEqual({ rules: [], state: 'closed' })
    const connection = await api.connection(body.id)
    const denied = connect(connection)
    await expect(denied).rejects.toMatchObject({ code: '28000', severity: 'FATAL' })
    await expect(denied).rejects.toThrow(provider.clientAddress)

    const opened = await api.change(body.id, { ip_allowlist: openToThisMachine })
    expect(opened).toMatchObject({ status: 200, body: { status: 'available', ip_allowlist: { state: 'restricted' } } })
    const session = await connect(connection)

    const elsewhere = await api.change(body.id, { ip_allowlist: { rules: [{ cidr: '203.0.113.9/24' }] } })
    expect(elsewhere.body.ip_allowlist.rules).toEqual([{ cidr: '203.0.113.0/24' }])
    expect(await sqlState(() => connect(connection))).toBe('28000')
    expect((await session.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await session.end()
    await api.remove(body.id)
  })

  test('the old rules admit no client once the change has been acknowledged', async () => {
    const { body } = await api.create({ name: 'flapping', ip_allowlist: openToThisMachine })
    const connection = await api.connection(body.id)
    for (let round = 0; round < 10; round++) {
      await api.change(body.id, { ip_allowlist: { rules: [] } })
      expect(await sqlState(() => connect(connection))).toBe('28000')
      await api.change(body.id, { ip_allowlist: openToThisMachine })
      expect(await sqlState(async () => (await connect(connection)).end())).toBe('none')
    }
    await api.remove(body.id)
  })
})

describe('changes', () => {
  test('a patch while busy is refused with Retry-After', async () => {
    const { body } = await api.create({ name: 'busy' }, {})
    const { status, headers } = await api.change(body.id, { display_name: 'too early' }, {})
    expect(status).toBe(409)
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    await eventually('the database is available', async () => (await api.read(body.id)).body.status === 'available')
    await api.remove(body.id)
  })

  test('of concurrent patches, each is applied completely or refused', async () => {
    const { body } = await api.create({ name: 'raced' })
    const cidrs = [1, 2, 3, 4].map(octet => `198.51.100.${octet}/32`)
    const answers = await Promise.all(cidrs.map(cidr => api.change(body.id, { ip_allowlist: { rules: [{ cidr }] } })))
    for (const { status, headers } of answers) {
      expect([200, 409]).toContain(status)
      if (status === 409) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    }
    const accepted = cidrs.filter((_, index) => answers[index]?.status === 200)
    const { ip_allowlist } = (await api.read(body.id)).body
    expect(ip_allowlist.rules).toHaveLength(1)
    expect(accepted).toContain(ip_allowlist.rules[0]?.cidr)
    await api.remove(body.id)
  })

  test('a display name, options and protection take effect at once, without a status change', async () => {
    const { body } = await api.create({ name: 'named' })
    const changed = await api.change(body.id, { display_name: 'Pears', options: ['x'], deletion_protection: true }, {})
    expect(changed.body).toMatchObject({ status: 'available', display_name: 'Pears', options: ['x'] })
    expect((await api.remove(body.id)).status).toBe(409)
    const cleared = await api.change(body.id, { display_name: null, deletion_protection: false }, {})
    expect(cleared.body.display_name ?? null).toBeNull()
    expect((await api.remove(body.id)).status).toBe(204)
  })

  test('of two concurrent creates of one name, exactly one succeeds', async () => {
    const answers = await Promise.all([api.create({ name: 'twin' }, {}), api.create({ name: 'twin' }, {})])
    expect(answers.map(answer => answer.status).sort()).toEqual([200, 400])
    const winner = answers.find(answer => answer.status === 200)
    await api.remove(winner?.body.id ?? '')
  })

  test('a deletion leaves no object, no process and no directory', async () => {
    const { body } = await api.create({ name: 'leftover', ip_allowlist: openToThisMachine })
    expect((await api.remove(body.id)).status).toBe(204)
    expect((await api.read(body.id)).status).toBe(404)
    for (const kind of [
      'ManagedDatabase',
      'StatefulSet',
      'Pod',
      'PersistentVolumeClaim',
      'Secret',
      'Service',
      'ConfigMap',
    ] as const) {
      const { items } = await provider.cluster.list(kind)
      const own = items.filter(item => JSON.stringify(item.metadata).includes(body.id))
      expect(own.map(item => `${kind}/${item.metadata.name}`)).toEqual([])
    }
  })

  test('the task of a create ends when the database is reconciled', async () => {
    const created = await api.create({ name: 'tasked' }, {})
    const task = created.headers.get('x-task-id')
    expect(task).toMatch(/^[0-9a-f-]{36}$/)
    expect((await api.read(created.body.id)).body.status).toBe('creating')
    const first = await api.call<{ status: string }>('GET', `/tasks/${task}`)
    expect(['queued', 'running']).toContain(first.body.status)
    const ended = await api.call<{ status: string; name: string }>('GET', `/tasks/${task}`, undefined, {
      prefer: 'wait=60',
    })
    expect(ended.body).toMatchObject({ status: 'succeeded', name: 'create-managed' })
    expect((await api.read(created.body.id)).body.status).toBe('available')
    await api.remove(created.body.id)
  })
})
