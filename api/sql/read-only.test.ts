/** A read changes nothing, whatever its text and role are. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { childNames, tenantNamespace } from '../../crds/index.ts'
import { isSoak } from '../../operator/testing/soak.ts'
import { userTypes } from '../schemas/common.ts'
import { openConnection } from './connect.ts'
import { Session, StatementFailure } from './session.ts'
import { type SqlDatabase, startSqlDatabase } from './testing/database.ts'

let database: SqlDatabase
beforeAll(async () => {
  database = await startSqlDatabase()
  await database.as(
    'app',
    `CREATE TABLE items (id int PRIMARY KEY, name text);
     INSERT INTO items VALUES (1, 'one'), (2, 'two');
     CREATE SEQUENCE numbers;
     SELECT nextval('numbers');
     CREATE TABLE log (at text);
     CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN DELETE FROM items; RETURN 1; END $$;
     CREATE FUNCTION leaving() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
       BEGIN PERFORM set_config('transaction_read_only', 'off', false); DELETE FROM items; RETURN 1; END $$;
     CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
       BEGIN DELETE FROM items; RETURN 1; EXCEPTION WHEN OTHERS THEN INSERT INTO log VALUES ('x'); RETURN 2; END $$;
     CREATE PROCEDURE committing() LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN COMMIT; DELETE FROM items; COMMIT; END $$;
     CREATE VIEW changing AS SELECT sneaky() AS x;
     GRANT ALL ON items, log, numbers, changing TO app_read_only, admin;
     GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC;
     GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA public TO PUBLIC`,
  )
})
afterAll(() => database?.stop())

/** The state that a request could change. */
const fingerprint = () =>
  database.as(
    'admin',
    `SELECT (SELECT array_agg(items ORDER BY id)::text FROM items) AS items, (SELECT count(*) FROM log) AS log,
      (SELECT last_value || ' ' || is_called FROM numbers) AS numbers,
      (SELECT md5(string_agg(c.oid::text || relname || relacl::text, ',' ORDER BY c.oid)) FROM pg_class c) AS classes,
      (SELECT md5(string_agg(oid::text || proname, ',' ORDER BY oid)) FROM pg_proc) AS functions,
      (SELECT md5(string_agg(rolname || rolcanlogin || rolcreaterole, ',' ORDER BY oid)) FROM pg_roles) AS roles,
      (SELECT md5(string_agg(setconfig::text, ',' ORDER BY setrole)) FROM pg_db_role_setting) AS settings,
      (SELECT string_agg(datname, ',') FROM pg_database) AS databases,
      (SELECT count(*) FROM pg_largeobject_metadata) AS objects, (SELECT count(*) FROM pg_prepared_xacts) AS prepared,
      (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks`,
  )

/** Statements with which a request could try to leave its transaction, or to change something in it. */
const leaving = [
  'COMMIT',
  'COMMIT AND CHAIN',
  'END',
  'ROLLBACK',
  'ROLLBACK AND CHAIN',
  'ABORT',
  'BEGIN',
  'START TRANSACTION READ WRITE',
  "PREPARE TRANSACTION 'a'",
  'SET TRANSACTION READ WRITE',
  'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
  'SET transaction_read_only = off',
  'SET default_transaction_read_only = off',
  'SET ROLE app',
  'RESET ROLE',
  'RESET ALL',
  'DISCARD ALL',
  'SAVEPOINT a',
  'ROLLBACK TO SAVEPOINT a',
  'CALL committing()',
  'DO $$ BEGIN COMMIT; DELETE FROM items; END $$',
  "DO $$ BEGIN EXECUTE 'COMMIT'; END $$",
  "COPY items TO PROGRAM 'touch /tmp/x'",
  "COPY items FROM PROGRAM 'echo 9'",
]
const reading = [
  "SELECT set_config('transaction_read_only', 'off', false)",
  "SELECT set_config('default_transaction_read_only', 'off', false)",
  "SELECT set_config('role', 'app', false)",
  "SELECT set_config('session_authorization', 'app', false)",
  'SELECT sneaky()',
  'SELECT leaving()',
  'SELECT caught()',
  'TABLE changing',
  "SELECT nextval('numbers')",
  "SELECT setval('numbers', 9)",
  'SELECT lo_create(0)',
  "SELECT lo_from_bytea(0, 'x')",
  'SELECT * INTO copied FROM items',
  'WITH gone AS (DELETE FROM items RETURNING *) SELECT * FROM gone',
  "WITH new AS (INSERT INTO items VALUES (9, 'x') RETURNING *) TABLE new",
  "SELECT query_to_xml('DELETE FROM items', true, true, '')",
  'SELECT * FROM items FOR UPDATE',
  'EXPLAIN ANALYZE DELETE FROM items',
  'EXPLAIN ANALYZE CREATE TABLE copied AS TABLE items',
  'EXPLAIN (ANALYZE) EXECUTE a',
  'SELECT pg_advisory_lock(1)',
  "SELECT pg_notify('a', 'b')",
  'SELECT pg_export_snapshot()',
  '(SELECT 1); DELETE FROM items',
  'SELECT 1/0',
  'SELECT 1',
]
const writing = ['DELETE FROM items', 'CREATE TABLE copied (a int)', 'CREATE ROLE sneak', 'DROP TABLE items']

describe('a read', () => {
  // Outside of soak runs, only one role is tested: the owner of all objects, which could change the most.
  test.each(isSoak ? userTypes : (['application'] as const))('as %s changes nothing', async role => {
    const before = await fingerprint()
    for (const text of [...leaving, ...writing]) expect((await database.sql({ text, role })).status, text).toBe(400)
    for (const text of reading) {
      await database.sql({ text: `${text}; SELECT sneaky()`, role, timeout_seconds: 2 })
      await database.sql({ text: `/* ; */ ${text}`, role, explain: 'analyze', timeout_seconds: 2 })
    }
    expect(await fingerprint()).toEqual(before)
  })

  test('changes nothing, whatever statements, comments and quotes its text combines', async () => {
    const before = await fingerprint()
    const piece = fc.constantFrom(
      ...leaving,
      ...reading,
      ...writing,
      '--',
      '/*',
      '*/',
      "'",
      '$$',
      '"',
      '(',
      ')',
      "E'\\",
      '\r',
      '\n',
    )
    const separator = fc.constantFrom(';', ' ; ', ';\n', ' ', ';/**/', '\v', '\u00a0')
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(piece, separator), { minLength: 1, maxLength: 6 }),
        fc.constantFrom(...userTypes),
        async (parts, role) => {
          const text = parts.flat().join('')
          const { status, lines } = await database.sql({ text, role, timeout_seconds: 2 })
          expect([200, 400], text).toContain(status)
          // XX000 is an internal error.
          expect(
            lines.filter(({ sqlstate }) => sqlstate === 'XX000'),
            text,
          ).toEqual([])
        },
      ),
      { numRuns: isSoak ? 2_000 : 40 },
    )
    expect(await fingerprint()).toEqual(before)
  })
})

describe('without the check of the first word', () => {
  /** Runs statements on a session as a read does. Returns the first failure. */
  async function run(statements: readonly string[]): Promise<StatementFailure | undefined> {
    const { postgres, id } = database
    const { host, port, ca } = postgres
    const serverName = `${childNames.service(id)}.${tenantNamespace('acme')}.svc`
    const opened = await openConnection(
      { host, port, ca, serverName, user: 'app', password: 'password-of-app', database: 'app' },
      { isReadOnly: true, statementTimeoutMs: 2_000 },
      new AbortController().signal,
    )
    const session = new Session(opened, true)
    try {
      await session.begin()
      for (const text of statements)
        for await (const _ of session.run({ text, parameters: [], maximumRows: 10, timeoutMs: 2_000, shift: 0 })) void _
      return undefined
    } catch (error) {
      if (error instanceof StatementFailure) return error
      throw error
    } finally {
      session.close()
      await session.closed
    }
  }

  test('Postgres and the second check prevent changes by the owner', async () => {
    const before = await fingerprint()
    for (const text of leaving) {
      const way = [
        'SET default_transaction_read_only = off',
        text,
        'SET TRANSACTION READ WRITE',
        'DELETE FROM items',
        'COMMIT',
      ]
      expect(await run(way), text).toBeInstanceOf(StatementFailure)
      expect(await run([text, 'DELETE FROM items', 'COMMIT']), text).toBeInstanceOf(StatementFailure)
    }
    expect(await fingerprint()).toEqual(before)
  })

  test('no sequence of statements changes anything', async () => {
    const before = await fingerprint()
    const exits = fc.constantFrom(
      'COMMIT',
      'COMMIT AND CHAIN',
      'SET TRANSACTION READ WRITE',
      'SET default_transaction_read_only = off',
      'DELETE FROM items',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(exits, { minLength: 3, maxLength: 8 }), async statements => {
        await run(statements)
      }),
      { numRuns: isSoak ? 2_000 : 100 },
    )
    expect(await fingerprint()).toEqual(before)
  })

  test.each(['COMMIT', 'COMMIT AND CHAIN', 'ROLLBACK', 'ROLLBACK AND CHAIN'])('%s ends the connection', async text => {
    expect((await run([text, 'SELECT 1']))?.line).toMatchObject({
      sqlstate: '25006',
      message: expect.stringMatching('a read'),
    })
  })
})
