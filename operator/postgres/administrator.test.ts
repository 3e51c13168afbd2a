import { Client } from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pgVersions } from '../../crds/index.ts'
import { databaseRoles } from '../../sealing/credentials.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../pki/index.ts'
import { createAdministrator, type PostgresObservation } from './administrator.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { connectAs, type RunningPostgres, startPostgres } from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const signal = new AbortController().signal
const lines: string[] = []
const logger = pino({ level: 'trace' }, { write: line => void lines.push(line) })

const administratorOf = (server: Pick<RunningPostgres, 'authority'>) =>
  createAdministrator({ authority: server.authority, now: Date.now, logger })

type Reached = Extract<PostgresObservation, { reachable: true }>
function reached(observation: PostgresObservation): Reached {
  if (!observation.reachable) throw new Error(`${observation.reason}: ${observation.message}`)
  return observation
}

const connections = 6
let servers: Map<string, RunningPostgres>
beforeAll(async () => {
  const started = pgVersions.map(
    async major => [major, await startPostgres({ major, shape: { connections } })] as const,
  )
  servers = new Map(await Promise.all(started))
})
afterAll(() => Promise.all([...(servers?.values() ?? [])].map(server => server.stop())))

describe.each(pgVersions)('Postgres %s', major => {
  let server: RunningPostgres
  beforeAll(() => {
    const found = servers.get(major)
    if (found === undefined) throw new Error('not started')
    server = found
  })

  const observe = async () =>
    reached(await administratorOf(server).observe(server.target, { passwords, commits: true }, signal))
  const ensure = (passwordVersion = 'first', given = passwords) =>
    administratorOf(server).ensureRoles(server.target, async () => ({ passwords: given, passwordVersion }), signal)
  const superuser = async (sql: string, database = 'app') => {
    const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
    return withConnection(server.target, database, certificate, signal, connection => connection.rows(sql))
  }
  const as = async (role: keyof typeof passwords, ...statements: string[]) => {
    const client = await connectAs(server, role, passwords[role])
    try {
      let rows: unknown[] = []
      for (const sql of statements) ({ rows } = await client.query(sql))
      return rows
    } finally {
      await client.end()
    }
  }

  test('makes a checkpoint, and returns where recovery of a copy starts', async () => {
    await superuser('CREATE TEMP TABLE t AS SELECT 1; SELECT pg_switch_wal()', 'template1')
    const before = await observe()
    const point = await administratorOf(server).checkpoint(server.target, signal)
    expect(point).toMatchObject({ systemIdentifier: before.systemIdentifier, timeline: 1 })
    const [row] = await superuser(
      `SELECT '${point.startLsn}'::pg_lsn >= '${before.walPosition}'::pg_lsn AS later,
              '${point.endLsn}'::pg_lsn >= '${point.startLsn}'::pg_lsn AS flushed,
              (SELECT checkpoint_lsn >= '${point.startLsn}'::pg_lsn FROM pg_control_checkpoint()) AS made`,
      'template1',
    )
    expect(row).toEqual({ later: true, flushed: true, made: true })
  })

  test('observes a server that is not set up yet', async () => {
    const observation = await observe()
    expect(Math.floor(observation.serverVersion / 10_000)).toBe(Number(major))
    expect(observation.systemIdentifier).toMatch(/^\d{15,20}$/)
    expect(observation).toMatchObject({
      inRecovery: false,
      checksums: true,
      applicationDatabase: false,
      checksumFailures: null,
      hasFreeSpace: true,
      wal: 'written',
      privilegesInOrder: false,
    })
    expect(observation.roles.app).toEqual({ exists: false, password: 'absent', passwordVersion: undefined })
  })

  test('creates roles and database, even in two concurrent calls, and then has nothing to do', async () => {
    await Promise.all([ensure(), ensure()])
    const observation = await observe()
    for (const role of databaseRoles) {
      expect(observation.roles[role]).toEqual({ exists: true, password: 'ours', passwordVersion: 'first' })
    }
    expect(observation).toMatchObject({ applicationDatabase: true, privilegesInOrder: true })
    const data = (await administratorOf(server).measure(server.target, signal)) ?? 0
    expect(data).toBeGreaterThan(1_000_000)
    // Besides the users' data, at least the platform's databases and one WAL segment.
    expect(await administratorOf(server).measureVolume(server.target, signal)).toBeGreaterThan(data + 16 * 2 ** 20)
    const before = await superuser('SELECT oid, xmin::text FROM pg_authid ORDER BY oid')
    await ensure()
    expect(await superuser('SELECT oid, xmin::text FROM pg_authid ORDER BY oid')).toEqual(before)
  })

  test('accepts the roles by password over TLS, and rejects every other login', async () => {
    for (const role of databaseRoles) expect(await as(role, 'SELECT current_user AS me')).toEqual([{ me: role }])
    await expect(connectAs(server, 'app', 'wrong')).rejects.toMatchObject({ code: '28P01' })
    await expect(connectAs(server, 'postgres', passwords.admin)).rejects.toMatchObject({ code: '28000' })
    const { host, port } = server
    const plain = new Client({ host, port, user: 'app', password: passwords.app, database: 'app', ssl: false })
    plain.on('error', () => {})
    await expect(plain.connect()).rejects.toMatchObject({ code: '28000' })
  })

  test('stores SCRAM verifiers and shows neither password nor verifier anywhere', async () => {
    const stored = await superuser(
      "SELECT rolpassword FROM pg_authid WHERE rolname IN ('admin', 'app', 'app_read_only')",
    )
    expect(stored).toHaveLength(3)
    for (const row of stored) expect(JSON.stringify(row)).toMatch(/SCRAM-SHA-256\$4096:/)
    const everything = lines.join('') + server.log()
    expect(everything).not.toMatch(/SCRAM-SHA-256\$/)
    for (const password of Object.values(passwords)) expect(everything).not.toContain(password)
  })

  test('detects a password that its user changed, and keeps it until the credentials change', async () => {
    await as('app', "ALTER ROLE app PASSWORD 'my own'")
    expect((await observe()).roles.app).toEqual({ exists: true, password: 'changed', passwordVersion: 'first' })
    await ensure()
    expect((await observe()).roles.app.password).toBe('changed')
    await ensure('second')
    expect((await observe()).roles.app).toEqual({ exists: true, password: 'ours', passwordVersion: 'second' })

    await as('app', 'ALTER ROLE app PASSWORD NULL')
    expect((await observe()).roles.app.password).toBe('absent')
    await ensure('second')
    expect((await observe()).roles.app.password).toBe('absent')
    await ensure('first')
  })

  test('changes the password of one role during open sessions, and no other', async () => {
    const rotated = { ...passwords, app: 'app-secret-2' }
    await as('admin', "ALTER ROLE admin PASSWORD 'of my own'")
    const session = await connectAs(server, 'app', passwords.app)
    await ensure('first app=r1', rotated)
    expect((await session.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await session.end()
    await expect(connectAs(server, 'app', passwords.app)).rejects.toMatchObject({ code: '28P01' })
    await (await connectAs(server, 'app', rotated.app)).end()
    const { roles } = reached(
      await administratorOf(server).observe(server.target, { passwords: rotated, commits: false }, signal),
    )
    expect(roles.app).toEqual({ exists: true, password: 'ours', passwordVersion: 'first app=r1' })
    // Another role's password does not change. A password that a user set stays.
    expect(roles.admin).toEqual({ exists: true, password: 'changed', passwordVersion: 'first' })
    expect(roles.app_read_only).toEqual({ exists: true, password: 'ours', passwordVersion: 'first' })
    await ensure('second')
    await ensure('first')
  })

  test('reports a password that it does not know as "unknown"', async () => {
    const observation = reached(
      await administratorOf(server).observe(server.target, { passwords: undefined, commits: false }, signal),
    )
    expect(observation.roles.admin.password).toBe('unknown')
  })

  test('allows app_read_only to read what app and admin create, even in later schemas, and to write nothing', async () => {
    await as('app', 'CREATE TABLE notes (id serial, body text)', "INSERT INTO notes (body) VALUES ('by app')")
    await as('app', 'CREATE SCHEMA later', 'CREATE TABLE later.t AS SELECT 1 AS a')
    await as('admin', 'CREATE SCHEMA office', 'CREATE TABLE office.t AS SELECT 2 AS a')
    expect(await as('app_read_only', 'SELECT body FROM notes')).toEqual([{ body: 'by app' }])
    expect(await as('app_read_only', 'SELECT * FROM later.t, office.t AS o')).toHaveLength(1)
    for (const sql of [
      "INSERT INTO notes (body) VALUES ('x')",
      'DELETE FROM later.t',
      'TRUNCATE office.t',
      "SELECT nextval('notes_id_seq')",
      'CREATE TABLE mine (a int)',
      'CREATE SCHEMA mine',
    ]) {
      await expect(as('app_read_only', 'SET default_transaction_read_only = off', sql)).rejects.toMatchObject({
        code: '42501',
      })
    }
    await expect(as('app_read_only', 'SELECT lo_create(0)')).rejects.toMatchObject({ code: '25006' })
  })

  test('allows app to use what admin creates, and admin to manage what app owns', async () => {
    await as('app', 'INSERT INTO office.t VALUES (3)')
    await as('admin', 'ALTER TABLE notes ADD COLUMN at timestamptz', 'CREATE INDEX ON later.t (a)')
    await as('admin', 'CREATE EXTENSION pgcrypto', 'CREATE EXTENSION citext')
    await as('admin', 'SET ROLE app', 'CREATE TABLE as_app (a int)')
    expect(await as('admin', "SELECT tableowner FROM pg_tables WHERE tablename = 'as_app'")).toEqual([
      { tableowner: 'app' },
    ])
    await as('admin', 'CREATE DATABASE scratch', 'DROP DATABASE scratch')
    await as('admin', "CREATE ROLE colleague LOGIN PASSWORD 'hers'", 'GRANT pg_monitor TO colleague')
    await as('admin', "ALTER ROLE colleague PASSWORD 'other'", 'DROP ROLE colleague')
    expect(await as('admin', 'SELECT count(*) > 0 AS any FROM pg_stat_activity WHERE usename = current_user')).toEqual([
      { any: true },
    ])
  })

  test('does not restore grants that an owner revoked', async () => {
    await as('app', 'CREATE TABLE private (a int)', 'REVOKE SELECT ON private FROM app_read_only')
    await ensure('first')
    await expect(as('app_read_only', 'SELECT * FROM private')).rejects.toMatchObject({ code: '42501' })
    expect((await observe()).privilegesInOrder).toBe(true)
  })

  test('restores attributes, memberships and ownership that were altered', async () => {
    await superuser('ALTER ROLE app SUPERUSER CREATEDB CONNECTION LIMIT 1')
    await superuser('ALTER ROLE admin NOLOGIN NOCREATEROLE')
    await superuser("ALTER ROLE app_read_only VALID UNTIL '2001-01-01' BYPASSRLS REPLICATION")
    await superuser('REVOKE app FROM admin')
    await superuser('GRANT pg_read_all_data, pg_read_server_files TO app_read_only')
    await superuser('ALTER DATABASE app OWNER TO postgres')
    await superuser('GRANT CONNECT ON DATABASE template1 TO PUBLIC')
    expect((await observe()).privilegesInOrder).toBe(false)
    await ensure()
    expect((await observe()).privilegesInOrder).toBe(true)
    const roles =
      await superuser(`SELECT rolname, rolsuper OR rolbypassrls OR rolreplication AS strong, rolcanlogin, rolcreaterole, rolcreatedb
      FROM pg_roles WHERE rolname IN ('admin', 'app', 'app_read_only') ORDER BY 1`)
    expect(roles).toEqual([
      { rolname: 'admin', strong: false, rolcanlogin: true, rolcreaterole: true, rolcreatedb: true },
      { rolname: 'app', strong: false, rolcanlogin: true, rolcreaterole: false, rolcreatedb: false },
      { rolname: 'app_read_only', strong: false, rolcanlogin: true, rolcreaterole: false, rolcreatedb: false },
    ])
    expect(await superuser("SELECT 1 FROM pg_auth_members WHERE member = 'app_read_only'::regrole")).toEqual([])
    await as('admin', 'ALTER TABLE notes ADD COLUMN again int')
  })

  test('creates a dropped role again, with its grants', async () => {
    await superuser('DROP OWNED BY app_read_only; DROP ROLE app_read_only')
    expect((await observe()).roles.app_read_only.exists).toBe(false)
    await ensure()
    expect((await observe()).privilegesInOrder).toBe(true)
    await as('app', 'CREATE TABLE after (a int)')
    await as('app_read_only', 'SELECT * FROM notes, later.t, office.t, after')

    await superuser(
      'ALTER DATABASE app OWNER TO postgres; REASSIGN OWNED BY app TO postgres; DROP OWNED BY app; DROP ROLE app',
    )
    await ensure()
    expect((await observe()).privilegesInOrder).toBe(true)
    await as('app', 'CREATE TABLE by_new_app (a int)')
    await as('app_read_only', 'SELECT * FROM by_new_app')
  })

  test('creates the application database again if a user dropped it', async () => {
    await as('admin', 'CREATE DATABASE scratch')
    const client = await connectAs(server, 'admin', passwords.admin, 'scratch')
    await client.query('DROP DATABASE app WITH (FORCE)')
    await client.end()
    expect((await observe()).applicationDatabase).toBe(false)
    await ensure()
    expect(await observe()).toMatchObject({ applicationDatabase: true, privilegesInOrder: true })
    await as('app', 'CREATE TABLE notes (a int)')
    await as('app_read_only', 'SELECT * FROM notes')
    await as('admin', 'DROP DATABASE scratch')
  })

  test('ignores settings that users made for the database', async () => {
    await as('app', 'CREATE SCHEMA evil')
    await as(
      'app',
      `CREATE FUNCTION evil.pg_get_userbyid(oid) RETURNS name LANGUAGE plpgsql AS $$ BEGIN ALTER ROLE app SUPERUSER; RETURN 'app'; END $$`,
    )
    for (const setting of [
      "search_path = 'evil, pg_catalog'",
      "role = 'app'",
      'default_transaction_read_only = on',
      'statement_timeout = 1',
      'lock_timeout = 1',
      'standard_conforming_strings = off',
      "default_transaction_isolation = 'serializable'",
    ]) {
      await superuser(`ALTER DATABASE app SET ${setting}`)
    }
    await superuser('DROP OWNED BY app_read_only; DROP ROLE app_read_only')
    await ensure()
    expect((await observe()).privilegesInOrder).toBe(true)
    expect(await superuser("SELECT current_user AS me, rolsuper FROM pg_roles WHERE rolname = 'app'")).toEqual([
      { me: 'postgres', rolsuper: false },
    ])
    await superuser('ALTER DATABASE app RESET ALL')
  })

  test('completes the setup after an abort at any statement', async () => {
    for (let delay = 0; delay < 56; delay += 7) {
      await superuser('DROP OWNED BY app_read_only; DROP ROLE app_read_only')
      const controller = new AbortController()
      const timer = setTimeout(() => controller.abort(new Error('leader lost')), delay)
      const result = await administratorOf(server)
        .ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), controller.signal)
        .catch(error => error)
      clearTimeout(timer)
      if (result !== undefined) expect(result).toHaveProperty('message', 'leader lost')
      await ensure()
      expect((await observe()).privilegesInOrder).toBe(true)
    }
  })

  test('finds which schemas, tables and columns of a configuration exist', async () => {
    await ensure()
    await as(
      'app',
      'CREATE SCHEMA library; CREATE TABLE library."Docs" (id int, content text, embedding float4[])',
      'CREATE DOMAIN library.short AS varchar(10); CREATE VIEW listed AS SELECT 1 AS id; ALTER TABLE library."Docs" ADD note library.short',
    )
    const table = (schema: string | undefined, name: string, ...columns: string[]) => ({
      ...{ schema, name, columns, vectorColumn: columns.at(-1) ?? '' },
    })
    const references = {
      digest: 'first',
      schemas: ['public', 'nowhere', "it's", 'library'],
      tables: [
        table('library', 'Docs', 'content', 'embedding'),
        table(undefined, 'Docs', 'nothing', 'note'),
        table('public', 'Docs', 'content'),
        table(undefined, 'listed', 'id'),
        table(undefined, "docs'; DROP TABLE x", 'content'),
      ],
      needsVector: true,
    }
    const observed = await administratorOf(server).observe(
      server.target,
      { passwords, commits: false, references },
      signal,
    )
    const none = { exists: false, vectors: [] }
    expect(reached(observed).references).toEqual({
      digest: 'first',
      found: {
        missingSchemas: ['nowhere', "it's"],
        vector: expect.stringMatching(/^(absent|available)$/),
        tables: [
          { exists: true, missing: [], vectors: [{ type: '_float4', dimensions: -1 }] },
          { exists: true, missing: ['nothing'], vectors: [{ type: 'varchar', dimensions: 14 }] },
          { ...none, missing: ['content'] },
          { exists: true, missing: [], vectors: [{ type: 'int4', dimensions: -1 }] },
          { ...none, missing: ['content'] },
        ],
      },
    })
    expect((await observe()).references).toBeUndefined()
    await superuser('ALTER DATABASE app ALLOW_CONNECTIONS false', 'template1')
    const closed = await administratorOf(server).observe(
      server.target,
      { passwords, commits: false, references },
      signal,
    )
    await superuser('ALTER DATABASE app ALLOW_CONNECTIONS true', 'template1')
    expect(reached(closed).references).toEqual({ digest: 'first', found: undefined })
    await as('app', 'DROP SCHEMA library CASCADE; DROP VIEW listed')
  })

  describe('the login of rest', () => {
    const secret = { password: 'rest-secret-1', passwordVersion: 'secret-1', anonymousRoles: ['web_anon'] }
    const ensureWith = (authenticator: typeof secret | undefined) =>
      administratorOf(server).ensureRoles(
        server.target,
        async () => ({ passwords, passwordVersion: 'first', authenticator }),
        signal,
      )
    const observeServer = async (authenticator: typeof secret | undefined) =>
      reached(
        await administratorOf(server).observe(server.target, { passwords, commits: false, authenticator }, signal),
      )
    const login = async (password: string, ...statements: string[]) => {
      const client = await connectAs(server, 'authenticator', password)
      try {
        for (const sql of statements) await client.query(sql)
      } finally {
        await client.end()
      }
    }
    const memberships = () =>
      superuser(`SELECT roleid::regrole::text AS role, inherit_option AS inherit, admin_option AS admin
        FROM pg_auth_members WHERE member = 'authenticator'::regrole ORDER BY 1`)

    test('is refused while a user has a role of that name', async () => {
      await as(
        'admin',
        "CREATE ROLE authenticator LOGIN PASSWORD 'of-a-user'",
        "COMMENT ON ROLE authenticator IS 'espalier {}'",
      )
      await ensureWith(secret)
      expect((await observeServer(secret)).authenticator).toMatchObject({ role: 'foreign', inOrder: true })
      expect((await observeServer(undefined)).platformInOrder).toBe(true)
      await login('of-a-user')
      await as('admin', 'DROP ROLE authenticator')
    })

    test('is created, becomes the anonymous role once that exists, and inherits nothing', async () => {
      expect((await observeServer(secret)).authenticator).toMatchObject({ role: 'missing', inOrder: false })
      await ensureWith(secret)
      expect((await observeServer(secret)).authenticator).toEqual({
        role: 'ours',
        inOrder: true,
        anonymousRoles: { web_anon: { kind: 'missing' } },
      })
      await as('admin', 'CREATE ROLE web_anon NOLOGIN')
      expect((await observeServer(secret)).authenticator).toMatchObject({
        inOrder: false,
        anonymousRoles: { web_anon: { kind: 'grantable' } },
      })
      await ensureWith(secret)
      expect((await observeServer(secret)).authenticator).toMatchObject({
        inOrder: true,
        anonymousRoles: { web_anon: { kind: 'granted' } },
      })
      expect(await memberships()).toEqual([{ role: 'web_anon', inherit: false, admin: false }])
      await login(secret.password, 'SET ROLE web_anon')
    })

    test('loses settings that a function called by a request set for it', async () => {
      const timeout = "SET statement_timeout = '1ms'"
      await login(
        secret.password,
        `ALTER ROLE authenticator ${timeout}`,
        `ALTER ROLE authenticator IN DATABASE app ${timeout}`,
      )
      expect((await observeServer(secret)).authenticator?.inOrder).toBe(false)
      await ensureWith(secret)
      expect((await observeServer(secret)).authenticator?.inOrder).toBe(true)
      await login(secret.password, 'SELECT pg_sleep(0.01)')
    })

    test('gets its password, attributes and CONNECT privilege again', async () => {
      await as('app', 'REVOKE CONNECT ON DATABASE app FROM PUBLIC, authenticator')
      await superuser("ALTER ROLE authenticator INHERIT CREATEDB PASSWORD 'of-a-function'")
      expect((await observeServer(secret)).authenticator?.inOrder).toBe(false)
      await ensureWith(secret)
      expect((await observeServer(secret)).authenticator?.inOrder).toBe(true)
      await login(secret.password)
      await expect(login('of-a-function')).rejects.toMatchObject({ code: '28P01' })
      const next = { ...secret, password: 'rest-secret-2', passwordVersion: 'secret-2' }
      await ensureWith(next)
      await login(next.password)
      await as('app', 'GRANT CONNECT ON DATABASE app TO PUBLIC')
    })

    test('loses roles that it must not become, or that are no longer in the configuration', async () => {
      await as('admin', 'GRANT pg_monitor TO web_anon', 'CREATE ROLE other_anon', 'GRANT web_anon TO authenticator')
      const both = { ...secret, anonymousRoles: ['web_anon', 'other_anon', 'app', 'postgres', 'pg_monitor'] }
      await ensureWith(both)
      const { authenticator } = await observeServer(both)
      expect(authenticator?.inOrder).toBe(true)
      expect(authenticator?.anonymousRoles).toMatchObject({
        web_anon: { kind: 'refused', reason: expect.stringMatching(/^web_anon is a member of pg_/) },
        other_anon: { kind: 'granted' },
        app: { kind: 'refused', reason: 'app is a role of the platform' },
        postgres: { kind: 'refused', reason: 'postgres has SUPERUSER' },
        pg_monitor: { kind: 'refused' },
      })
      expect(await memberships()).toEqual([{ role: 'other_anon', inherit: false, admin: false }])
      await ensureWith({ ...secret, anonymousRoles: [] })
      expect(await memberships()).toEqual([])
    })

    test('is locked if no service needs it', async () => {
      expect((await observeServer(undefined)).platformInOrder).toBe(false)
      await ensureWith(undefined)
      expect((await observeServer(undefined)).platformInOrder).toBe(true)
      await expect(login(secret.password)).rejects.toThrow()
      await ensureWith(secret)
      await login(secret.password)
      await ensureWith(undefined)
    })
  })

  test('reports why it cannot connect', async () => {
    const administrator = administratorOf(server)
    const other = createAuthority()
    const otherAuthority = createAdministrator({ authority: other, now: Date.now, logger })
    const observeServer = async (who: typeof administrator, target: Partial<typeof server.target>) => {
      const observation = await who.observe({ ...server.target, ...target }, { passwords, commits: true }, signal)
      return observation.reachable ? 'reachable' : observation.reason
    }
    expect(await observeServer(administrator, { port: 1 })).toBe('network')
    expect(await observeServer(administrator, { ca: other.cert })).toBe('tls')
    expect(await observeServer(administrator, { serverName: 'other.test.svc' })).toBe('tls')
    expect(await observeServer(otherAuthority, {})).toBe('tls')

    const enter = (certificate: { cert: string; key: string }) =>
      withConnection(server.target, 'template1', certificate, signal, connection => connection.rows('SELECT 1'))
    await expect(enter(issueClientCertificate(server.authority, { commonName: 'someone' }))).rejects.toMatchObject({
      reason: 'auth',
      code: '28000',
    })
    // A stolen server certificate does not permit a login as the operator, whatever its name.
    const serverCertificate = issueServerCertificate(server.authority, { dnsNames: [operatorCommonName] })
    await expect(enter(serverCertificate)).rejects.toMatchObject({ reason: 'tls' })
    const yesterday = () => Date.now() - 2 * 86_400_000
    await expect(
      enter(issueClientCertificate(server.authority, { commonName: operatorCommonName }, yesterday)),
    ).rejects.toMatchObject({ reason: 'tls' })
  })

  test('rejects with the reason of a signal that is already aborted', async () => {
    const stopped = AbortSignal.abort(new Error('stopped'))
    await expect(administratorOf(server).observe(server.target, { passwords, commits: true }, stopped)).rejects.toThrow(
      'stopped',
    )
  })

  test("gives application roles exactly the size's connections, and the operator can still connect", async () => {
    const others =
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    await expect.poll(() => superuser(others), { timeout: 10_000 }).toEqual([{ n: 0 }])
    const clients: Client[] = []
    for (let i = 0; i < connections; i++) {
      const role = databaseRoles[i % 3] ?? 'app'
      clients.push(await connectAs(server, role, passwords[role]))
    }
    await expect(connectAs(server, 'app', passwords.app)).rejects.toMatchObject({ code: '53300' })
    await Promise.all([observe(), observe(), ensure()])
    for (const client of clients) await client.end()
  })

  test('writes log lines that can be parsed', async () => {
    await expect(as('app', 'SELECT * FROM "no such table"')).rejects.toThrow()
    const line = server
      .log()
      .split('\n')
      .find(text => text.includes('no such table'))
    expect(line).toMatch(
      /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+:\d+\] 42P01 \[user=app db=app client=127\.0\.0\.1\] ERROR: {2}relation/,
    )
  })
})
