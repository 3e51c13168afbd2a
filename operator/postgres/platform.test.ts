/**
 * The platform's own objects in every database, on real servers: files read from the mount, replication, statistics.
 */
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PgVersion, pgVersions } from '../../crds/index.ts'
import type { InstanceConfiguration } from '../../instance/index.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { smallShape } from '../testing/samples.ts'
import { createAdministrator } from './administrator.ts'
import {
  monitorCommonName,
  monitorRole,
  preloadedLibraries,
  renderWithDigest,
  replicationCommonName,
  replicationRole,
} from './configuration.ts'
import {
  configure,
  connectAs,
  instanceId,
  type RunningPostgres,
  runPostgres,
  startPostgres,
} from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const signal = new AbortController().signal
const logger = pino({ level: 'silent' })

let servers: Map<PgVersion, RunningPostgres>
beforeAll(async () => {
  servers = new Map(await Promise.all(pgVersions.map(async major => [major, await startPostgres({ major })] as const)))
})
afterAll(() => Promise.all([...(servers?.values() ?? [])].map(server => server.stop())))

describe.each(pgVersions)('Postgres %s', major => {
  let server: RunningPostgres
  let administrator: ReturnType<typeof createAdministrator>
  beforeAll(async () => {
    const found = servers.get(major)
    if (found === undefined) throw new Error('not started')
    server = found
    administrator = createAdministrator({ authority: server.authority, now: Date.now, logger })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
  })

  const observe = async () => {
    const observation = await administrator.observe(server.target, { passwords, commits: false }, signal)
    if (!observation.reachable) throw new Error(observation.message)
    return observation
  }
  const mount = (files: InstanceConfiguration['files']) =>
    configure(server.mounts, {
      databaseId: instanceId,
      incarnation: 1,
      pgVersion: major,
      initialise: false,
      preload: preloadedLibraries,
      files,
    })
  const certified = (user: string, commonName: string, more: object = {}) => {
    const { host, port, ca, serverName } = server.target
    const certificate = issueClientCertificate(server.authority, { commonName })
    const client = new pg.Client({
      host,
      port,
      user,
      database: 'app',
      ssl: { ...certificate, ca, servername: serverName },
      ...more,
    })
    client.on('error', () => {})
    return client
  }

  test('applies changed rules and settings by a reload while a session is open', async () => {
    const before = renderWithDigest(smallShape, major, instanceId)
    const session = await connectAs(server, 'app', passwords.app)
    const { rows: was } = await session.query('SELECT pg_backend_pid() AS pid')
    expect((await observe()).configuration).toEqual({
      inForce: before.digest,
      onDisk: before.digest,
      isMounted: true,
      refused: null,
      errors: [],
      pendingRestart: [],
    })

    const after = renderWithDigest(
      { ...smallShape, postgresSettings: { work_mem: '7MB', shared_buffers: '20MB' } },
      major,
      instanceId,
    )
    const rules = after.files['pg_hba.conf'].replace(
      'hostssl    all          all                   all      scram',
      'hostssl all app_read_only all reject\nhostssl all all all scram',
    )
    expect(rules).not.toBe(after.files['pg_hba.conf'])
    mount({ ...after.files, 'pg_hba.conf': rules })
    expect((await observe()).configuration).toMatchObject({ inForce: before.digest, onDisk: after.digest, errors: [] })
    await administrator.reload(server.target, signal)
    await expect.poll(async () => (await observe()).configuration.inForce).toBe(after.digest)

    const { configuration } = await observe()
    expect(configuration).toMatchObject({ errors: [], pendingRestart: ['shared_buffers'], isMounted: true })
    const { rows } = await session.query("SELECT pg_backend_pid() AS pid, current_setting('work_mem') AS memory")
    expect(rows).toEqual([{ ...was[0], memory: '7MB' }])
    await session.end()
    await expect(connectAs(server, 'app_read_only', passwords.app_read_only)).rejects.toThrow('pg_hba.conf rejects')
    mount(before.files)
    await administrator.reload(server.target, signal)
    await expect
      .poll(async () => (await observe()).configuration)
      .toMatchObject({ inForce: before.digest, pendingRestart: [] })
  })

  test.each([
    ['postgresql.conf', "work_mem = 'lots'\n", 'work_mem: setting could not be applied'],
    ['postgresql.conf', 'no_such_setting = 1\n', 'no_such_setting: unrecognized configuration parameter'],
    ['pg_hba.conf', 'hostssl all all all no-such-method\n', 'pg_hba.conf: invalid authentication method'],
    ['pg_ident.conf', 'espalier\n', 'pg_ident.conf: missing entry'],
  ] as const)('reports what it refuses of %s before a reload: %s', async (name, text, message) => {
    const { files } = renderWithDigest(smallShape, major, instanceId)
    mount({ ...files, [name]: files[name] + text })
    const { configuration } = await observe()
    expect(configuration.errors.join()).toContain(message)
    mount(files)
    expect((await observe()).configuration.errors).toEqual([])
  })

  test('accepts replication only with its certificate', async () => {
    const replication = certified(replicationRole, replicationCommonName, { replication: 'true', database: undefined })
    await replication.connect()
    const { rows } = await replication.query('IDENTIFY_SYSTEM')
    expect(rows).toHaveLength(1)
    await replication.end()
    await expect(certified(replicationRole, replicationCommonName).connect()).rejects.toThrow('pg_hba.conf rejects')
    await expect(
      certified(replicationRole, replicationCommonName, { replication: 'database' }).connect(),
    ).rejects.toThrow('pg_hba.conf rejects')
    await expect(certified('postgres', replicationCommonName).connect()).rejects.toThrow(
      'certificate authentication failed',
    )
    await expect(certified(replicationRole, 'espalier-operator', { replication: 'true' }).connect()).rejects.toThrow(
      'certificate authentication failed',
    )
    await expect(connectAs(server, replicationRole, 'guessed')).rejects.toThrow('pg_hba.conf rejects')
  })

  test('accepts monitoring only with the certificate of this instance', async () => {
    const own = { commonName: monitorCommonName(instanceId), user: monitorRole }
    const login = (commonName: string, database = 'template1', user: string = monitorRole) =>
      certified(user, commonName, { database })
    const monitor = login(own.commonName)
    await monitor.connect()
    const { rows } = await monitor.query("SELECT count(*) > 0 AS seen FROM pg_stat_activity WHERE backend_type <> ''")
    expect(rows).toEqual([{ seen: true }])
    await expect(monitor.query('SELECT rolpassword FROM pg_authid')).rejects.toThrow('permission denied')
    await expect(monitor.query('CREATE TABLE public.mine ()')).rejects.toThrow('permission denied')
    await expect(monitor.query("SELECT pg_read_file('postgresql.conf')")).rejects.toThrow('permission denied')
    await monitor.end()
    await expect(login(own.commonName, 'app').connect()).rejects.toThrow('pg_hba.conf rejects')
    const another = monitorCommonName('00000000-0000-4000-8000-000000000002')
    for (const otherName of [another, replicationCommonName, 'espalier-operator', 'espalier-api'])
      await expect(login(otherName).connect()).rejects.toThrow('certificate authentication failed')
    for (const role of ['postgres', 'app', replicationRole])
      await expect(login(own.commonName, 'template1', role).connect()).rejects.toThrow()
    await expect(connectAs(server, monitorRole, 'guessed')).rejects.toThrow('pg_hba.conf rejects')
  })

  test('corrects a monitoring role that a user created or changed', async () => {
    const admin = await connectAs(server, 'admin', passwords.admin)
    await expect(admin.query(`ALTER ROLE ${monitorRole} PASSWORD 'mine'`)).rejects.toThrow('permission denied')
    const owner = certified('postgres', 'espalier-operator')
    await owner.connect()
    await owner.query(`REVOKE ALL ON DATABASE template1 FROM ${monitorRole}`)
    await owner.query(`DROP ROLE ${monitorRole}`)
    await admin.query(`CREATE ROLE ${monitorRole} LOGIN PASSWORD 'mine'`)
    expect(await observe()).toMatchObject({ platformInOrder: false, privilegesInOrder: true })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await observe()).toMatchObject({ platformInOrder: true, privilegesInOrder: true })
    await expect(admin.query(`SET ROLE ${monitorRole}`)).rejects.toThrow('permission denied')
    await owner.query(`REVOKE pg_use_reserved_connections FROM ${monitorRole}`)
    expect(await observe()).toMatchObject({ platformInOrder: false, privilegesInOrder: true })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await observe()).toMatchObject({ platformInOrder: true, privilegesInOrder: true })
    await Promise.all([owner.end(), admin.end()])
  })

  test('takes over a role with that name that a user created first', async () => {
    const admin = await connectAs(server, 'admin', passwords.admin)
    await expect(admin.query(`ALTER ROLE ${replicationRole} PASSWORD 'mine'`)).rejects.toThrow('permission denied')
    await expect(admin.query(`GRANT ${replicationRole} TO admin`)).rejects.toThrow('permission denied')
    const owner = certified('postgres', 'espalier-operator')
    await owner.connect()
    await owner.query(`DROP ROLE ${replicationRole}`)
    await admin.query(`CREATE ROLE ${replicationRole} LOGIN PASSWORD 'mine'`)
    await admin.query('CREATE ROLE helper')
    await admin.query(`GRANT ${replicationRole} TO helper`)
    expect(await observe()).toMatchObject({ platformInOrder: false, privilegesInOrder: true })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await observe()).toMatchObject({ platformInOrder: true, privilegesInOrder: true })
    const { rows } = await owner.query(
      'SELECT rolreplication, rolpassword, (SELECT count(*)::int FROM pg_auth_members WHERE roleid = r.oid) AS members FROM pg_authid r WHERE rolname = $1',
      [replicationRole],
    )
    expect(rows).toEqual([{ rolreplication: true, rolpassword: null, members: 0 }])
    await expect(admin.query(`SET ROLE ${replicationRole}`)).rejects.toThrow('permission denied')
    await admin.query('DROP ROLE helper')
    await Promise.all([owner.end(), admin.end()])
  })

  test('allows admin to read the statements that ran, without passwords', async () => {
    const app = await connectAs(server, 'app', passwords.app)
    await app.query('SELECT 41 + 1 AS found_by_admin')
    await app.query("ALTER ROLE app PASSWORD 'spoken-aloud'")
    const admin = await connectAs(server, 'admin', passwords.admin)
    const { rows } = await admin.query<{ query: string }>('SELECT query FROM espalier.pg_stat_statements')
    const queries = rows.map(({ query }) => query).join('\n')
    expect(queries).toContain('AS found_by_admin')
    expect(queries).not.toContain('spoken-aloud')
    expect(queries).not.toContain('SCRAM-SHA-256')
    await expect(admin.query('SELECT espalier.pg_stat_statements_reset()')).rejects.toThrow('permission denied')
    await expect(app.query('CREATE TABLE espalier.mine ()')).rejects.toThrow('permission denied')
    await app.query('SELECT 1')
    await app.query(`ALTER ROLE app PASSWORD '${passwords.app}'`)
    const reader = await connectAs(server, 'app_read_only', passwords.app_read_only)
    await expect(reader.query('SELECT query FROM espalier.pg_stat_statements')).rejects.toThrow('permission denied')
    await Promise.all([app.end(), admin.end(), reader.end()])
  })

  test('allows admin to run amcheck, even on a database of an older release', async () => {
    const owner = certified('postgres', 'espalier-operator')
    await owner.connect()
    await owner.query('DROP EXTENSION IF EXISTS amcheck')
    const { rows } = await owner.query<{ passwordVersion: string }>(
      "SELECT shobj_description('app_read_only'::regrole, 'pg_authid') AS \"passwordVersion\"",
    )
    const { checks: _, ...earlier } = JSON.parse(rows[0]?.passwordVersion.replace('espalier ', '') ?? '{}')
    await owner.query(`COMMENT ON ROLE app_read_only IS 'espalier ${JSON.stringify(earlier)}'`)
    expect(await observe()).toMatchObject({ platformInOrder: false, privilegesInOrder: true })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await observe()).toMatchObject({ platformInOrder: true })
    const admin = await connectAs(server, 'admin', passwords.admin)
    await admin.query('CREATE EXTENSION IF NOT EXISTS amcheck')
    await admin.query('CREATE TABLE checked (id int PRIMARY KEY)')
    await admin.query("SELECT espalier.bt_index_check('checked_pkey', true)")
    expect((await admin.query("SELECT * FROM espalier.verify_heapam('checked')")).rows).toEqual([])
    await admin.query('DROP TABLE checked')
    const reader = await connectAs(server, 'app_read_only', passwords.app_read_only)
    await expect(reader.query("SELECT espalier.bt_index_check('pg_class_oid_index')")).rejects.toThrow('denied')
    await Promise.all([owner.end(), admin.end(), reader.end()])
  })

  test("gives a user's read-only role what app_read_only can read, even later objects, but does not permit to become it", async () => {
    const admin = await connectAs(server, 'admin', passwords.admin)
    await admin.query("CREATE ROLE reporting LOGIN PASSWORD 'reporting-secret-1'")
    await admin.query('GRANT espalier_read_only TO reporting')
    const app = await connectAs(server, 'app', passwords.app)
    await app.query('CREATE SCHEMA later; CREATE TABLE later.of_app AS SELECT 1 AS n')
    await admin.query('CREATE TABLE of_admin AS SELECT 2 AS n')
    const { host, port, ca, serverName } = server.target
    const ssl = { ca, servername: serverName }
    const reporting = new pg.Client({
      host,
      port,
      user: 'reporting',
      password: 'reporting-secret-1',
      database: 'app',
      ssl,
    })
    await reporting.connect()
    const { rows } = await reporting.query('SELECT n FROM later.of_app UNION SELECT n FROM of_admin ORDER BY n')
    expect(rows).toEqual([{ n: 1 }, { n: 2 }])
    await expect(reporting.query('DELETE FROM later.of_app')).rejects.toThrow('permission denied')
    await expect(reporting.query('SET ROLE app_read_only')).rejects.toThrow('permission denied')
    for (const taken of [
      "ALTER ROLE app_read_only PASSWORD 'mine'",
      'COMMENT ON ROLE app_read_only IS NULL',
      'DROP ROLE app_read_only',
      'GRANT app_read_only TO reporting',
    ])
      await expect(admin.query(taken)).rejects.toThrow('permission denied')
    // The operator reverts admin's changes to the group.
    await admin.query("ALTER ROLE espalier_read_only LOGIN PASSWORD 'mine'")
    expect(await observe()).toMatchObject({ platformInOrder: false, privilegesInOrder: true })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await observe()).toMatchObject({ platformInOrder: true })
    await admin.query('DROP ROLE espalier_read_only')
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await observe()).toMatchObject({ platformInOrder: true })
    await app.query('DROP SCHEMA later CASCADE')
    await admin.query('DROP TABLE of_admin; DROP ROLE reporting')
    await Promise.all([admin.end(), app.end(), reporting.end()])
  })

  test('archives WAL with a command that always succeeds, so that no WAL accumulates', async () => {
    const owner = certified('postgres', 'espalier-operator')
    await owner.connect()
    await owner.query('SELECT pg_switch_wal()')
    const archived = async () => {
      const { rows } = await owner.query(
        'SELECT archived_count > 0 AS some, failed_count::int AS failed FROM pg_stat_archiver',
      )
      return rows[0]
    }
    await owner.query('CREATE TABLE public.filled AS SELECT generate_series(1, 10)')
    await owner.query('SELECT pg_switch_wal()')
    await expect.poll(archived, { timeout: 20_000 }).toEqual({ some: true, failed: 0 })
    await owner.query('DROP TABLE public.filled')
    await owner.end()
  })
})

describe('an image without contrib', () => {
  test('has everything except statement statistics', async () => {
    const server = await startPostgres({ major: '18', settings: { shared_preload_libraries: '' } })
    const administrator = createAdministrator({ authority: server.authority, now: Date.now, logger })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await administrator.observe(server.target, { passwords, commits: false }, signal)).toMatchObject({
      privilegesInOrder: true,
      platformInOrder: true,
    })
    const admin = await connectAs(server, 'admin', passwords.admin)
    const { rows } = await admin.query(
      "SELECT count(*)::int AS count FROM pg_extension WHERE extname = 'pg_stat_statements'",
    )
    expect(rows).toEqual([{ count: 0 }])
    await admin.end()
    await server.stop()
  })

  test('does not change a schema with that name that a user created', async () => {
    const server = await startPostgres({ major: '18', settings: { shared_preload_libraries: '' } })
    const administrator = createAdministrator({ authority: server.authority, now: Date.now, logger })
    await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    const app = await connectAs(server, 'app', passwords.app)
    await app.query('CREATE SCHEMA espalier')
    await app.end()
    await server.kill('SIGINT')
    const again = await runPostgres(server.mounts, { major: '18' })
    const target = { ...server.target, port: again.port }
    await administrator.ensureRoles(target, async () => ({ passwords, passwordVersion: 'first' }), signal)
    expect(await administrator.observe(target, { passwords, commits: false }, signal)).toMatchObject({
      platformInOrder: true,
    })
    const client = await connectAs({ target }, 'app', passwords.app)
    const { rows } = await client.query(
      "SELECT count(*)::int AS count FROM pg_class WHERE relnamespace = 'espalier'::regnamespace",
    )
    expect(rows).toEqual([{ count: 0 }])
    await client.end()
    await again.kill()
    await server.stop()
  })
})
