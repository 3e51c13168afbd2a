/** Statistics of statements over HTTP, with a real Postgres. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { issueClientCertificate } from '../../operator/pki/index.ts'
import { operatorCommonName } from '../../operator/postgres/configuration.ts'
import { withConnection } from '../../operator/postgres/connection.ts'
import { type SqlDatabase, startSqlDatabase } from '../sql/testing/database.ts'
import { createStable, expectError, startClient } from '../testing/client.ts'
import { configurationOf } from '../testing/harness.ts'

let database: SqlDatabase
beforeAll(async () => {
  database = await startSqlDatabase()
  await database.as('app', 'CREATE TABLE items (id int PRIMARY KEY, name text)')
  for (let id = 0; id < 5; id++) await database.as('app', `INSERT INTO items VALUES (${id}, 'a secret constant')`)
  await database.as('app', 'SELECT pg_sleep(0.3)')
})
afterAll(() => database?.stop())

const read = (query = '') => database.client.call('GET', `/databases/${database.id}/queries${query}`)

test('returns the statements with the most time, with parameters in place of constants', async () => {
  const { status, body, headers } = await read()
  expect(status).toBe(200)
  expect(headers['cache-control']).toBe('no-store')
  expect(Date.parse(body.since)).toBeGreaterThan(Date.now() - 3_600_000)
  expect(body.queries[0]).toMatchObject({ text: 'SELECT pg_sleep($1)', role: 'app', calls: 1, rows: 1 })
  expect(body.queries[0].total_ms).toBeGreaterThan(299)
  expect(body.queries[0].share).toBeGreaterThan(0.3)
  const inserted = body.queries.find(({ text }: { text: string }) => text.startsWith('INSERT'))
  expect(inserted).toMatchObject({ text: 'INSERT INTO items VALUES ($1, $2)', is_cut: false, calls: 5, rows: 5 })
  expect(inserted.wal_bytes).toBeGreaterThan(0)
  expect(JSON.stringify(body)).not.toContain('a secret constant')
})

test('orders and limits them, and excludes statements with the name of its own', async () => {
  // Postgres counts a statement when its portal is closed. The end of the connection does not always close the portal.
  expect(await database.as('admin', 'SELECT 1 AS espalier_queries')).toEqual([{ espalier_queries: 1 }])
  const { body } = await read('?order=calls&limit=1')
  expect(body.queries).toHaveLength(1)
  expect(body.queries[0].calls).toBeGreaterThanOrEqual(5)
  const texts = (await read('?limit=1000')).body.queries.map(({ text }: { text: string }) => text)
  expect(texts).toContain('INSERT INTO items VALUES ($1, $2)')
  expect(texts.filter((text: string) => /espalier_queries|json_build_object/.test(text))).toEqual([])
  // The statement with which the API begins each read.
  expect(texts.filter((text: string) => text.includes('now()'))).toEqual([])
  expectError(await read('?order=name'), 400, /^order: /)
  expectError(await read('?limit=0'), 400, /^limit: /)
})

test('returns 100 texts of characters that take six bytes each as JSON', async () => {
  const name = '\u0001'.repeat(2_000)
  const texts = Array.from({ length: 100 }, (_, n) => `SELECT ${'1, '.repeat(n)}1 AS "${name}"`)
  await database.as('app', texts.join('; '))
  const { status, body } = await read('?order=rows&limit=1000')
  expect(status).toBe(200)
  const isLong = ({ text }: { text: string }) => text.includes('\u0001')
  const long = body.queries.filter(isLong).map(({ text }: { text: string }) => text)
  expect(body.queries.filter(isLong).every((query: { is_cut: boolean }) => query.is_cut)).toBe(true)
  expect(long.length).toBeGreaterThan(80)
  for (const text of long) expect(text.length).toBeGreaterThan(1_300)
})

test("runs no operator or function of a user, whatever the database's search path", async () => {
  const raise = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$"
  await database.as('app', 'CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC')
  await database.as('app', `CREATE FUNCTION evil.add(bigint, bigint) RETURNS bigint ${raise}`)
  await database.as('app', 'CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.add)')
  await database.as('app', `CREATE FUNCTION evil.divide(float8, float8) RETURNS float8 ${raise}`)
  await database.as('app', 'CREATE OPERATOR evil./ (LEFTARG = float8, RIGHTARG = float8, FUNCTION = evil.divide)')
  await database.as('app', `CREATE FUNCTION evil.same(oid, oid) RETURNS boolean ${raise}`)
  await database.as('app', 'CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.same)')
  await database.as('app', 'ALTER DATABASE app SET search_path = evil, pg_catalog, public')
  try {
    const { lines } = await database.sql({ text: 'SELECT 1::bigint + 1::bigint' })
    expect(lines.at(-1)).toMatchObject({ type: 'error', message: 'ran as app_read_only' })
    expect((await read()).status).toBe(200)
  } finally {
    await database.as('app', 'ALTER DATABASE app RESET search_path; DROP SCHEMA evil CASCADE')
  }
})

test('a suspended or unknown database has no statistics', async () => {
  expectError(await database.client.call('GET', `/databases/${crypto.randomUUID()}/queries`), 404)
  const path = `/databases/${database.id}/branches/${crypto.randomUUID()}/queries`
  expectError(await database.client.call('GET', path), 404)
  expectError(
    await database.client.call('GET', `/databases/${database.id}/queries`, { claims: { tenant: 'other' } }),
    404,
  )
})

test('without the extension, the error explains this', async () => {
  const { authority, target } = database.postgres
  const certificate = issueClientCertificate(authority, { commonName: operatorCommonName })
  const { signal } = new AbortController()
  await withConnection(target, 'app', certificate, signal, connection =>
    connection.rows('DROP EXTENSION pg_stat_statements'),
  )
  expectError(await read(), 409, /pg_stat_statements is missing/)
})

test('is off if SQL through the API is off', async () => {
  const client = await startClient({ configuration: configurationOf({ sql: { enabled: false } }) })
  try {
    const id = await createStable(client, 'shop')
    expectError(await client.call('GET', `/databases/${id}/queries`), 403, /api\.sql\.enabled/)
  } finally {
    await client.close()
  }
})
