/** The databases of bench/rest.ts: a small one for requests, and one with 10,000 tables for the read of a schema. */
import type { TestPostgres } from '../services/testing/postgres.ts'
import { requestText } from './rest-load.ts'

const schema = `
  CREATE TABLE clients (id int PRIMARY KEY, name text NOT NULL, city text);
  CREATE TABLE projects (
    id int PRIMARY KEY, client_id int NOT NULL REFERENCES clients, name text NOT NULL, budget numeric(12, 2), started date
  );
  CREATE TABLE tasks (id int PRIMARY KEY, project_id int NOT NULL REFERENCES projects, title text NOT NULL, done boolean NOT NULL);
  CREATE INDEX ON projects (client_id);
  CREATE INDEX ON tasks (project_id);
  CREATE TABLE items (id int PRIMARY KEY, name text NOT NULL, price numeric(12, 2), created timestamptz, tags text[], details jsonb);
  CREATE TABLE entries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, amount numeric, note text, created timestamptz DEFAULT now()
  );
  CREATE TABLE wide (id int PRIMARY KEY, content text NOT NULL);
  CREATE FUNCTION add(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + b';

  INSERT INTO clients SELECT n, 'client ' || n, 'city ' || n % 50 FROM generate_series(1, 100) n;
  INSERT INTO projects SELECT n, 1 + n % 100, 'project ' || n, n * 10.5, date '2020-01-01' + n FROM generate_series(1, 1000) n;
  INSERT INTO tasks SELECT n, 1 + n % 1000, 'task ' || n, n % 3 = 0 FROM generate_series(1, 5000) n;
  INSERT INTO items
    SELECT n, 'item ' || n, n * 0.25, timestamptz '2024-01-01' + n * interval '1 minute', ARRAY['a', 'b' || n % 10], jsonb_build_object('n', n, 'even', n % 2 = 0)
    FROM generate_series(1, 10000) n;
  INSERT INTO wide SELECT n, repeat(md5(n::text), 32) FROM generate_series(1, 51200) n;
  GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO anonymous;`

const manyTables = `
  DO $$ BEGIN
    CREATE TABLE t0 (id int PRIMARY KEY);
    FOR n IN 1..10000 LOOP
      EXECUTE format(
        'CREATE TABLE t%s (id int PRIMARY KEY, parent int REFERENCES t%s, name text NOT NULL DEFAULT '''', amount numeric(10, 2), created timestamptz DEFAULT now(), details jsonb)',
        n, n / 10);
      IF n % 100 = 0 THEN COMMIT; END IF;
    END LOOP;
  END $$`

export async function makeRoles(postgres: TestPostgres): Promise<void> {
  await postgres.run(
    'CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anonymous; GRANT anonymous TO authenticator',
  )
}

export async function makeDatabase(postgres: TestPostgres, name: string): Promise<void> {
  await postgres.run(`CREATE DATABASE ${name}`)
  await postgres.run(schema, name)
  await postgres.run('VACUUM ANALYZE', name)
}

/** Creates the database with 10,000 tables, which takes half a minute. */
export async function makeManyTables(postgres: TestPostgres, name: string): Promise<void> {
  await postgres.run(`CREATE DATABASE ${name}`)
  await postgres.run(manyTables, name)
  await postgres.run('GRANT SELECT ON t1 TO anonymous', name)
  await postgres.run('VACUUM ANALYZE pg_class, pg_attribute, pg_constraint, pg_type, pg_attrdef, pg_index', name)
}

export const entry = (number: number) => ({
  name: `entry ${number}`,
  amount: number / 4,
  note: 'a note of some length',
})
export const thousandEntries = JSON.stringify(Array.from({ length: 1_000 }, (_, number) => entry(number)))

export type Question = { readonly name: string; readonly request: string; readonly isRead: boolean }

export const singleInsert = 'a single insert'
export const bulkInsert = 'a bulk insert of 1,000 rows'

/** The measured requests. */
export const questions: readonly Question[] = [
  { name: 'one row by key', request: requestText('/items?id=eq.4711'), isRead: true },
  { name: '100 rows', request: requestText('/items?limit=100'), isRead: true },
  {
    name: 'an embedding over two relations',
    request: requestText('/projects?select=id,name,clients(name,city),tasks(id,title,done)&id=lte.10'),
    isRead: true,
  },
  { name: 'an RPC', request: requestText('/rpc/add', JSON.stringify({ a: 1, b: 2 })), isRead: true },
  { name: singleInsert, request: requestText('/entries', JSON.stringify(entry(1))), isRead: false },
  { name: bulkInsert, request: requestText('/entries', thousandEntries), isRead: false },
]

export const smallAnswer = requestText('/items?id=eq.1')
/** The request whose response has slightly more than 50 MB. */
export const largeAnswer = requestText('/wide?select=content')
export const oneOfMany = requestText('/t1?id=eq.1')
