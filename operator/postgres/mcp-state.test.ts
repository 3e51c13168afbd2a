/** The role and database in which the service `mcp` stores its conversations, on real servers. */
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pgVersions } from '../../crds/index.ts'
import { databaseRoles } from '../../sealing/credentials.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { createAdministrator, type DesiredMcpState } from './administrator.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { connectAs, type RunningPostgres, startPostgres } from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const signal = new AbortController().signal
const login = { password: 'state-secret-1', passwordVersion: 'secret-1' }
const wanted: DesiredMcpState = { owner: 'first', isRequested: true, login }
const unwanted: DesiredMcpState = { owner: 'first', isRequested: false, login: undefined }

let servers: Map<string, RunningPostgres>
beforeAll(async () => {
  const started = pgVersions.map(async major => [major, await startPostgres({ major })] as const)
  servers = new Map(await Promise.all(started))
})
afterAll(() => Promise.all([...(servers?.values() ?? [])].map(server => server.stop())))

describe.each(pgVersions)('Postgres %s', major => {
  let server: RunningPostgres
  beforeAll(async () => {
    const found = servers.get(major)
    if (found === undefined) throw new Error('not started')
    server = found
    await ensure(undefined)
  })

  const administrator = () =>
    createAdministrator({ authority: server.authority, now: Date.now, logger: pino({ level: 'silent' }) })
  const ensure = (mcpState: DesiredMcpState | undefined) =>
    administrator().ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'm', mcpState }), signal)
  const observe = async (mcpState: DesiredMcpState | undefined) => {
    const seen = await administrator().observe(server.target, { passwords, commits: false, mcpState }, signal)
    if (!seen.reachable) throw new Error(seen.message)
    return { mcpState: seen.mcpState, platformInOrder: seen.platformInOrder }
  }
  const superuser = (sql: string, database = 'template1') => {
    const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
    return withConnection(server.target, database, certificate, signal, async connection => {
      await connection.alone(sql, 10_000)
      return connection.rows<{ names: string[] }>(
        "SELECT array_agg(datname::text ORDER BY datname) AS names FROM pg_database WHERE datname LIKE 'espalier%'",
      )
    })
  }
  const as = async (user: string, password: string, database: string, ...statements: string[]) => {
    const client = await connectAs(server, user, password, database)
    try {
      let rows: unknown[] = []
      for (const sql of statements) ({ rows } = await client.query(sql))
      return rows
    } finally {
      await client.end()
    }
  }
  const asState = (...statements: string[]) => as('mcp_state', login.password, 'espalier', ...statements)

  test('nothing is created, and no work remains, if it is not requested', async () => {
    await ensure(unwanted)
    expect(await observe(unwanted)).toEqual({ mcpState: undefined, platformInOrder: true })
    expect(await superuser('SELECT 1')).toEqual([{ names: null }])
  })

  test('it is created once, and only its role connects to it', async () => {
    expect((await observe(wanted)).mcpState).toEqual({ kind: 'ours', inOrder: false })
    await ensure(wanted)
    expect(await observe(wanted)).toEqual({ mcpState: { kind: 'ours', inOrder: true }, platformInOrder: true })
    await asState('CREATE TABLE conversations (id int)', 'INSERT INTO conversations VALUES (1)')
    for (const role of databaseRoles)
      await expect(connectAs(server, role, passwords[role], 'espalier')).rejects.toMatchObject({ code: '42501' })
    await expect(connectAs(server, 'mcp_state', login.password, 'template1')).rejects.toMatchObject({ code: '42501' })
    // Every role may connect to the user's database, and this role has no rights in it.
    await as('app', passwords.app, 'app', 'CREATE TABLE private (id int)')
    for (const sql of ['SELECT id FROM private', 'CREATE TABLE mine (id int)'])
      await expect(as('mcp_state', login.password, 'app', sql)).rejects.toMatchObject({ code: '42501' })
    await ensure(wanted)
    expect(await asState('SELECT id FROM conversations')).toEqual([{ id: 1 }])
  })

  test.each(databaseRoles)('%s changes neither the role nor the database', async role => {
    for (const sql of [
      'SET ROLE mcp_state',
      "ALTER ROLE mcp_state PASSWORD 'mine'",
      'DROP ROLE mcp_state',
      'COMMENT ON ROLE mcp_state IS NULL',
      'GRANT mcp_state TO current_user',
      'DROP DATABASE espalier',
      'ALTER DATABASE espalier OWNER TO current_user',
      'ALTER DATABASE espalier RENAME TO mine',
      "ALTER DATABASE espalier SET search_path = 'mine'",
      'GRANT CONNECT ON DATABASE espalier TO current_user; SELECT 1/0',
      'COMMENT ON DATABASE espalier IS NULL',
      'CREATE DATABASE mine TEMPLATE espalier',
    ]) {
      const outcome = await as(role, passwords[role], 'app', sql).then(
        () => 'done',
        error => error.code,
      )
      expect([sql, ['42501', '25006', '22012', '0LP01'].includes(outcome) ? 'refused' : outcome]).toEqual([
        sql,
        'refused',
      ])
    }
    expect((await observe(wanted)).mcpState).toEqual({ kind: 'ours', inOrder: true })
  })

  test('no request to rest becomes mcp_state', async () => {
    const authenticator = { password: 'rest-secret-1', passwordVersion: 'r', anonymousRoles: ['mcp_state'] }
    const desired = async () => ({ passwords, passwordVersion: 'm', authenticator, mcpState: wanted })
    await administrator().ensureRoles(server.target, desired, signal)
    const options = { passwords, commits: false, authenticator, mcpState: wanted }
    expect(await administrator().observe(server.target, options, signal)).toMatchObject({
      authenticator: { inOrder: true, anonymousRoles: { mcp_state: { kind: 'refused' } } },
      mcpState: { kind: 'ours', inOrder: true },
    })
    await administrator().ensureRoles(
      server.target,
      async () => ({ passwords, passwordVersion: 'm', mcpState: wanted }),
      signal,
    )
  })

  test('mcp_state gets nothing but its database', async () => {
    for (const sql of [
      'SELECT rolpassword FROM pg_catalog.pg_authid',
      'CREATE DATABASE mine',
      'CREATE ROLE mine',
      'SET ROLE app',
      "COPY (SELECT 1) TO PROGRAM 'true'",
      'ALTER DATABASE espalier OWNER TO mcp_state',
      'COMMENT ON DATABASE espalier IS NULL',
      'COMMENT ON ROLE mcp_state IS NULL',
      'ALTER ROLE mcp_state CREATEDB',
    ])
      await expect(asState(sql), sql).rejects.toMatchObject({ code: '42501' })
  })

  test('differences are corrected, and the stored data are kept', async () => {
    await superuser("ALTER ROLE mcp_state CREATEDB PASSWORD 'of-a-function'")
    expect((await observe(wanted)).mcpState).toEqual({ kind: 'ours', inOrder: false })
    await ensure(wanted)
    await superuser('GRANT CONNECT ON DATABASE espalier TO PUBLIC')
    expect((await observe(wanted)).mcpState).toEqual({ kind: 'ours', inOrder: false })
    await ensure(wanted)
    const next = { ...wanted, login: { password: 'state-secret-2', passwordVersion: 'secret-2' } }
    expect((await observe(next)).mcpState).toEqual({ kind: 'ours', inOrder: false })
    await ensure(next)
    await expect(asState('SELECT 1')).rejects.toMatchObject({ code: '28P01' })
    expect(await as('mcp_state', 'state-secret-2', 'espalier', 'SELECT id FROM conversations')).toEqual([{ id: 1 }])
    await ensure(wanted)
    expect(await asState('SELECT id FROM conversations')).toEqual([{ id: 1 }])
  })

  test('if it is requested and its password is not created yet, nothing is changed', async () => {
    const unminted = { ...wanted, login: undefined }
    expect(await observe(unminted)).toEqual({ mcpState: undefined, platformInOrder: true })
    await ensure(unminted)
    await ensure(undefined)
    expect(await asState('SELECT id FROM conversations')).toEqual([{ id: 1 }])
  })

  test("another owner's database is dropped despite its sessions, and created again", async () => {
    const session = await connectAs(server, 'mcp_state', login.password, 'espalier')
    const other = {
      owner: 'second',
      isRequested: true,
      login: { password: 'state-secret-3', passwordVersion: 'secret-3' },
    }
    expect(await observe(other)).toEqual({ mcpState: { kind: 'ours', inOrder: false }, platformInOrder: false })
    await ensure(other)
    await expect(session.query('SELECT 1')).rejects.toThrow()
    await expect(asState('SELECT 1')).rejects.toMatchObject({ code: '28P01' })
    const tables = "SELECT relname FROM pg_class WHERE relname = 'conversations'"
    expect(await as('mcp_state', 'state-secret-3', 'espalier', tables)).toEqual([])
    // The password is not created yet, but the role does not keep the source's password.
    await ensure({ ...wanted, login: undefined })
    await expect(connectAs(server, 'mcp_state', 'state-secret-3', 'espalier')).rejects.toMatchObject({
      code: expect.stringMatching(/^28/),
    })
  })

  test('after an operator died at any statement, the next one completes the work', async () => {
    await superuser('CREATE DATABASE espalier TEMPLATE template0 CONNECTION LIMIT 0')
    await ensure(wanted)
    await asState('CREATE TABLE conversations (id int)')
    for (const sql of [
      'ALTER DATABASE espalier CONNECTION LIMIT 0',
      'REVOKE CONNECT ON DATABASE espalier FROM mcp_state',
    ]) {
      await superuser(sql)
      expect((await observe(wanted)).mcpState).toEqual({ kind: 'ours', inOrder: false })
      await ensure(wanted)
      expect(await asState('SELECT id FROM conversations')).toEqual([])
    }
  })

  test("sessions of a role that a user created with the operator's comment are ended when its password is set, and its settings are reset", async () => {
    await ensure(unwanted)
    await superuser('DROP ROLE IF EXISTS mcp_state')
    await as('admin', passwords.admin, 'app', "CREATE ROLE maker LOGIN CREATEROLE PASSWORD 'maker-secret'")
    await as(
      ...(['maker', 'maker-secret', 'app', "CREATE ROLE mcp_state LOGIN PASSWORD 'kept'"] as const),
      ...["COMMENT ON ROLE mcp_state IS 'espalier {}'", "ALTER ROLE mcp_state SET search_path = 'elsewhere'"],
    )
    await as('admin', passwords.admin, 'app', 'DROP OWNED BY maker', 'DROP ROLE maker').catch(() =>
      superuser('DROP OWNED BY maker; DROP ROLE maker'),
    )
    const session = await connectAs(server, 'mcp_state', 'kept', 'app')
    session.on('error', () => {})
    await ensure(wanted)
    await expect(session.query("ALTER ROLE mcp_state PASSWORD 'mine'")).rejects.toThrow()
    expect(await asState('SHOW search_path')).toEqual([{ search_path: '"$user", public' }])
    await expect(as('mcp_state', 'mine', 'espalier')).rejects.toThrow(/password authentication failed/)
  })

  test('it is dropped with its service, and its role is locked', async () => {
    expect((await observe(unwanted)).platformInOrder).toBe(false)
    await ensure(unwanted)
    expect(await observe(unwanted)).toEqual({ mcpState: undefined, platformInOrder: true })
    expect(await superuser('SELECT 1')).toEqual([{ names: null }])
    await expect(connectAs(server, 'mcp_state', login.password, 'app')).rejects.toMatchObject({
      code: expect.stringMatching(/^28/),
    })
    await ensure(wanted)
    await asState('SELECT 1')
    await ensure(unwanted)
    await superuser('DROP ROLE mcp_state')
  })

  test.each([
    ['role', "CREATE ROLE mcp_state LOGIN PASSWORD 'of-a-user'", "COMMENT ON ROLE mcp_state IS 'espalier {}'"],
    ['database', 'CREATE DATABASE espalier', `COMMENT ON DATABASE espalier IS 'espalier {"owner":"first"}'`],
  ] as const)('a %s with that name that a user created is not changed', async (taken, ...statements) => {
    await as('admin', passwords.admin, 'app', ...statements)
    const insertOwn = () =>
      taken === 'role'
        ? as('mcp_state', 'of-a-user', 'app', 'SELECT 1')
        : as('admin', passwords.admin, 'espalier', 'SELECT 1')
    for (const state of [wanted, { ...wanted, owner: 'second' }, unwanted]) {
      await ensure(state)
      await insertOwn()
      const { mcpState, platformInOrder } = await observe(state)
      expect(platformInOrder).toBe(true)
      expect(mcpState).toEqual(state.isRequested ? { kind: 'foreign', taken } : undefined)
    }
    await as('admin', passwords.admin, 'app', `DROP ${taken} ${taken === 'role' ? 'mcp_state' : 'espalier'}`)
    expect((await observe(wanted)).mcpState).toEqual({ kind: 'ours', inOrder: false })
  })

  test('a database that a superuser created by hand is not dropped', async () => {
    await superuser('CREATE DATABASE espalier')
    await ensure(unwanted)
    await ensure({ ...wanted, owner: 'second' })
    expect((await observe(wanted)).mcpState).toEqual({ kind: 'foreign', taken: 'database' })
    expect(await superuser('SELECT 1')).toEqual([{ names: ['espalier'] }])
  })
})
