/** Attacks by users of a database. The test tries each attack as each of the three roles, on every version. */
import type { Client } from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pgVersions } from '../../crds/index.ts'
import { databaseRoles } from '../../sealing/credentials.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { createAdministrator } from './administrator.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { connectAs, type RunningPostgres, startPostgres } from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const authenticator = { password: 'authenticator-secret-1', passwordVersion: 'a', anonymousRoles: [] }
const logins = { ...passwords, authenticator: authenticator.password }
const attackers = [...databaseRoles, 'authenticator'] as const

let servers: Map<string, RunningPostgres>
beforeAll(async () => {
  const started = pgVersions.map(async major => {
    const server = await startPostgres({ major })
    const administrator = createAdministrator({
      authority: server.authority,
      now: Date.now,
      logger: pino({ level: 'silent' }),
    })
    const desired = async () => ({ passwords, passwordVersion: 'm', authenticator })
    await administrator.ensureRoles(server.target, desired, new AbortController().signal)
    return [major, server] as const
  })
  servers = new Map(await Promise.all(started))
})
afterAll(() => Promise.all([...(servers?.values() ?? [])].map(server => server.stop())))

/** How an attack may fail: privilege missing, a setting fixed at start, a feature or extension that does not exist. */
const refusals = ['42501', '55P02', '0A000']

const attacks: Record<string, string[]> = {
  'password hashes': [
    'SELECT rolpassword FROM pg_catalog.pg_authid',
    'SELECT passwd FROM pg_catalog.pg_shadow',
    'COPY pg_catalog.pg_authid TO STDOUT',
    'CREATE VIEW hashes AS SELECT * FROM pg_authid; SELECT * FROM hashes',
    'SELECT * FROM pg_catalog.pg_user_mapping',
    'SELECT subconninfo FROM pg_catalog.pg_subscription',
    'GRANT pg_read_all_data TO current_user; SELECT rolpassword FROM pg_authid',
    'CREATE FUNCTION pg_temp.h() RETURNS text SECURITY DEFINER LANGUAGE sql AS $$ SELECT rolpassword FROM pg_authid LIMIT 1 $$; SELECT pg_temp.h()',
    'CREATE INDEX ON pg_catalog.pg_authid (rolpassword)',
    'ALTER TABLE pg_catalog.pg_authid DISABLE ROW LEVEL SECURITY',
    'CREATE RULE r AS ON SELECT TO pg_authid DO INSTEAD SELECT 1',
    'CREATE TRIGGER t AFTER UPDATE ON pg_authid EXECUTE FUNCTION suppress_redundant_updates_trigger()',
    'SELECT 1 FROM pg_authid FOR UPDATE',
    'SELECT * FROM pg_statistic',
    'SELECT * FROM pg_statistic_ext_data',
  ],
  programs: [
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "CREATE TEMP TABLE t (a text); COPY t FROM PROGRAM 'id'",
    "CREATE FUNCTION pg_temp.system(text) RETURNS int AS '/lib/x86_64-linux-gnu/libc.so.6', 'system' LANGUAGE c",
    "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE internal AS 'pg_backend_pid'",
    'CREATE EXTENSION plpython3u',
    'CREATE LANGUAGE plperlu',
    "LOAD '/tmp/evil.so'",
    "SET session_preload_libraries = '/tmp/evil'",
    "SET dynamic_library_path = '/tmp'",
    "ALTER ROLE current_user SET local_preload_libraries = '/tmp/evil'; LOAD '/tmp/evil'",
    "ALTER ROLE current_user SET session_preload_libraries = 'evil'",
    "ALTER DATABASE app SET session_preload_libraries = 'evil'",
    "ALTER DATABASE app SET dynamic_library_path = '/tmp'",
    "ALTER DATABASE app SET jit_provider = 'evil'",
    "SET archive_command = 'true'",
    'CREATE EXTENSION plpgsql_check',
    'CREATE EXTENSION pg_walinspect',
    // The extension exists. A user can neither drop it nor move it to a schema where its functions precede others.
    'DROP EXTENSION pg_stat_statements CASCADE',
    'ALTER EXTENSION pg_stat_statements SET SCHEMA public',
    'DROP EXTENSION plpgsql',
    'CREATE LANGUAGE evil HANDLER plpgsql_call_handler',
  ],
  'files of the server': [
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT pg_read_binary_file('global/pg_control')",
    "SELECT pg_ls_dir('.')",
    "SELECT pg_stat_file('postgresql.conf')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/x')",
    "COPY (SELECT 1) TO '/tmp/espalier-attack'",
    "CREATE TEMP TABLE t (a text); COPY t FROM '/etc/passwd'",
    "CREATE TABLESPACE t LOCATION '/tmp'",
    'CREATE EXTENSION file_fdw',
    'CREATE EXTENSION adminpack',
    'CREATE EXTENSION pageinspect',
    'SELECT * FROM pg_hba_file_rules',
    'SELECT * FROM pg_file_settings',
    "SELECT set_config('log_directory', '/tmp', false)",
    'SELECT pg_current_logfile(), pg_read_file(pg_current_logfile())',
    "SELECT pg_read_file('/proc/self/environ')",
    "SELECT pg_ls_dir('/etc/espalier')",
    "SELECT pg_stat_file('../espalier-room')",
    "SELECT query_to_xml('SELECT pg_read_file(''postgresql.conf'')', true, true, '')",
    'SELECT * FROM pg_ident_file_mappings',
    'SELECT * FROM pg_config',
  ],
  'the network from the server': [
    'CREATE EXTENSION dblink',
    'CREATE EXTENSION postgres_fdw',
    "CREATE SUBSCRIPTION s CONNECTION 'host=10.0.0.1' PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 user=postgres' PUBLICATION p WITH (connect = false)",
  ],
  'the superuser': [
    'SET ROLE postgres',
    'SET SESSION AUTHORIZATION postgres',
    "SELECT set_config('session_authorization', 'postgres', false)",
    'GRANT postgres TO current_user',
    "ALTER ROLE postgres PASSWORD 'mine'",
    'ALTER ROLE postgres RENAME TO mine',
    'ALTER ROLE postgres NOLOGIN',
    "ALTER ROLE postgres SET search_path = 'public'",
    'DROP ROLE postgres',
    'DROP OWNED BY postgres',
    'REASSIGN OWNED BY postgres TO current_user',
    'CREATE ROLE boss SUPERUSER',
    'CREATE ROLE copier REPLICATION',
    'CREATE ROLE blind BYPASSRLS',
    'ALTER ROLE current_user SUPERUSER',
    'ALTER ROLE current_user REPLICATION',
    'ALTER ROLE current_user BYPASSRLS',
    'COMMENT ON ROLE app IS NULL',
    'GRANT pg_execute_server_program TO current_user',
    'GRANT pg_read_server_files TO current_user',
    'GRANT pg_write_server_files TO current_user',
    'GRANT pg_read_all_data TO current_user',
    'GRANT pg_create_subscription TO current_user',
    'CREATE ROLE go_between; GRANT pg_read_server_files TO go_between',
    "UPDATE pg_authid SET rolsuper = true WHERE rolname = 'app'",
    'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()',
    'CREATE TABLE pg_catalog.mine (a int)',
    'CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT null::timestamptz $$',
    'CREATE FOREIGN DATA WRAPPER w',
    'CREATE ACCESS METHOD m TYPE TABLE HANDLER heap_tableam_handler',
    'GRANT SET ON PARAMETER log_statement TO current_user',
    "ALTER ROLE ALL SET search_path = 'public'",
    "ALTER ROLE postgres IN DATABASE app SET role = 'app'",
    'ALTER DEFAULT PRIVILEGES FOR ROLE postgres GRANT ALL ON TABLES TO PUBLIC',
    'GRANT pg_checkpoint TO current_user',
    'GRANT pg_use_reserved_connections TO current_user',
    'GRANT app TO postgres',
    'ALTER DATABASE app OWNER TO postgres',
    'ALTER SCHEMA pg_catalog RENAME TO theirs',
    'ALTER FUNCTION pg_catalog.shobj_description(oid, name) OWNER TO current_user',
    'CREATE OPERATOR pg_catalog.= (LEFTARG = name, RIGHTARG = text, FUNCTION = texteq)',
    'CREATE CAST (text AS name) WITH INOUT AS IMPLICIT',
    'CREATE OPERATOR CLASS c DEFAULT FOR TYPE int4 USING btree AS OPERATOR 1 <',
    'CREATE TYPE pg_catalog.evil AS (a int)',
    'ALTER VIEW pg_catalog.pg_roles SET (security_barrier)',
    'CREATE EVENT TRIGGER e ON login EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()',
    "SELECT set_config('is_superuser', 'on', false)",
  ],
  'the other roles': [
    "ALTER ROLE %other% PASSWORD 'mine'",
    'DROP ROLE %other%',
    'ALTER ROLE %other% RENAME TO mine',
    'ALTER ROLE %other% NOLOGIN',
    'GRANT %other% TO current_user WITH ADMIN OPTION',
  ],
  'the login of rest': [
    'COMMENT ON ROLE authenticator IS NULL',
    'DROP ROLE authenticator',
    'ALTER ROLE authenticator RENAME TO mine',
    'ALTER ROLE authenticator INHERIT',
    'ALTER ROLE authenticator NOLOGIN',
    'GRANT authenticator TO current_user WITH ADMIN OPTION',
    'GRANT app TO authenticator',
    'GRANT admin TO authenticator',
    'GRANT pg_read_all_data TO authenticator',
  ],
  'the platform': [
    "ALTER SYSTEM SET fsync = 'off'",
    'ALTER SYSTEM RESET ALL',
    'SELECT pg_reload_conf()',
    'SELECT pg_rotate_logfile()',
    'SELECT pg_switch_wal()',
    "SELECT pg_create_physical_replication_slot('s')",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    'SELECT pg_promote()',
    'CHECKPOINT',
    'SET log_statement = none',
    'SET temp_file_limit = -1',
    'SET track_activities = off',
    'SET session_replication_role = replica',
    'SET zero_damaged_pages = on',
    'SET allow_system_table_mods = on',
    'DROP DATABASE template1',
    'ALTER DATABASE template1 IS_TEMPLATE false',
    'ALTER DATABASE template1 OWNER TO current_user',
    "ALTER DATABASE template1 SET search_path = 'public'",
    'GRANT CONNECT ON DATABASE template1 TO PUBLIC; SELECT 1/0',
    'ALTER DATABASE app SET log_statement = none',
    'ALTER DATABASE app SET temp_file_limit = -1',
    'ALTER DATABASE app SET session_replication_role = replica',
    'ALTER ROLE current_user SET max_stack_depth = 100',
    'SET superuser_reserved_connections = 0',
    'SELECT pg_log_backend_memory_contexts(1)',
    "SELECT pg_create_restore_point('x')",
    "SELECT pg_backup_start('x')",
    'SELECT pg_wal_replay_pause()',
    "SELECT pg_replication_origin_create('o')",
    "SELECT pg_import_system_collations('pg_catalog')",
    "SELECT lo_put(1, 0, 'x') FROM pg_largeobject",
    'CREATE DATABASE d TABLESPACE pg_global',
    'DROP TABLESPACE pg_default',
    'REINDEX TABLE pg_catalog.pg_authid',
    'ALTER TABLE pg_catalog.pg_database SET (autovacuum_enabled = off)',
  ],
}

describe.each(pgVersions)('Postgres %s', major => {
  let server: RunningPostgres
  const clients = new Map<string, Client>()
  beforeAll(async () => {
    const found = servers.get(major)
    if (found === undefined) throw new Error('not started')
    server = found
    for (const role of attackers) {
      const client = await connectAs(server, role, logins[role])
      await client.query('SET default_transaction_read_only = off')
      clients.set(role, client)
    }
  })
  const clientOf = (role: string): Client => {
    const client = clients.get(role)
    if (client === undefined) throw new Error('not connected')
    return client
  }
  afterAll(async () => {
    for (const client of clients.values()) await client.end()
  })

  test('no secret is in a setting that every login reads', async () => {
    const { rows } = await clientOf('authenticator').query('SELECT setconfig FROM pg_catalog.pg_db_role_setting')
    expect(rows).toEqual([{ setconfig: ['default_transaction_read_only=on'] }])
  })

  test.each(databaseRoles)('%s can neither become the role authenticator nor change it', async role => {
    for (const sql of [
      'SET ROLE authenticator',
      "ALTER ROLE authenticator PASSWORD 'mine'",
      "ALTER ROLE authenticator SET rst.jwt_secret = 'mine'",
    ])
      await expect(clientOf(role).query(sql)).rejects.toMatchObject({ code: '42501' })
  })

  describe.each(attackers)('as %s', role => {
    test.each(Object.entries(attacks))('no attack reaches %s', async (_, statements) => {
      const client = clientOf(role)
      const done: string[] = []
      for (const statement of statements) {
        const others = statement.includes('%other%') ? databaseRoles.filter(other => other !== role) : ['']
        for (const other of others) {
          const sql = statement.replace('%other%', other)
          // One string is one transaction: statements before the refused one are rolled back.
          const outcome = await client.query(sql).then(
            () => 'done',
            error => (refusals.includes(error.code) ? 'refused' : `${error.code} ${error.message}`),
          )
          if (outcome !== 'refused') done.push(`${sql}: ${outcome}`)
        }
      }
      expect(done).toEqual([])
    })

    test.each(['template1', 'postgres'])('cannot connect to %s, nor for replication', async database => {
      await expect(connectAs(server, role, logins[role], database)).rejects.toMatchObject({
        code: expect.stringMatching(/^(42501|3D000)$/),
      })
      await expect(connectAs(server, `${role}`, logins[role], 'template0')).rejects.toMatchObject({ code: '55000' })
    })

    test('cannot end a session of the superuser', async () => {
      const client = clientOf(role)
      const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
      await withConnection(server.target, 'app', certificate, new AbortController().signal, async connection => {
        const [session] = await connection.rows<{ pid: number }>('SELECT pg_backend_pid() AS pid')
        for (const end of ['pg_terminate_backend', 'pg_cancel_backend']) {
          await expect(client.query(`SELECT ${end}($1)`, [session?.pid])).rejects.toMatchObject({ code: '42501' })
        }
      })
    })
  })
})
