/**
 * advise_indexes on a real Postgres: the planner uses the advised indexes, useless indexes are not advised, and no
 * statement runs.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { answerOf, type CatalogueTest, startCatalogueTest } from '../catalogue/testing/server.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { createCatalogue } from '../database/catalogue.ts'
import { callContext } from '../testing/calls.ts'
import { adviseIndexes } from './advise-indexes.ts'

let server: CatalogueTest
beforeAll(async () => {
  server = await startCatalogueTest()
  await server.postgres.run(`
    CREATE ROLE reader LOGIN;
    CREATE TABLE customers (id int PRIMARY KEY, email text, "user" text);
    INSERT INTO customers SELECT n, 'c' || n || '@example.com', 'u' || n FROM generate_series(1, 20000) n;
    CREATE TABLE orders (id int PRIMARY KEY, customer_id int REFERENCES customers, status text, at timestamptz, total numeric);
    INSERT INTO orders SELECT n, n % 20000 + 1, (ARRAY['open','done','lost'])[n % 3 + 1], now() - n * interval '1 minute', n FROM generate_series(1, 60000) n;
    CREATE TABLE fresh (id int); INSERT INTO fresh SELECT generate_series(1, 5000);
    ALTER TABLE fresh SET (autovacuum_enabled = off);
    CREATE FUNCTION writes() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
    ANALYZE customers, orders`)
})
afterAll(() => server?.stop())

async function call(args: JsonObject, changed: Partial<DatabaseSettings> = {}) {
  const { access, catalogue, limits } = server
  const statements = createCatalogue(access, () => {})
  const tool = adviseIndexes({ entries: server.entries(changed), access, catalogue, statements, limits })
  return answerOf(await tool.call(args, callContext()))
}
async function advised(query: string): Promise<string[]> {
  const { text, isError } = await call({ query })
  expect(isError, text).toBe(false)
  return [...text.matchAll(/^(CREATE INDEX .*?;) --/gm)].map(([, sql = '']) => sql)
}

describe('a statement', () => {
  test.each([
    [`SELECT * FROM orders WHERE customer_id = 42`, 'public.orders (customer_id)'],
    [`SELECT * FROM orders AS o WHERE o.status = 'open' AND o.total > 59900`, 'public.orders (status, total)'],
    [`SELECT * FROM customers WHERE lower(email) = 'c7@example.com'`, 'public.customers (lower(email))'],
    [`SELECT * FROM customers WHERE "user" = 'u7'`, 'public.customers ("user")'],
    [`SELECT * FROM customers WHERE email LIKE 'c777%'`, 'public.customers (email text_pattern_ops)'],
    [`SELECT * FROM orders ORDER BY at DESC LIMIT 5`, 'public.orders (at DESC)'],
    [`SELECT o.* FROM customers c JOIN orders o ON o.customer_id = c.id WHERE c.id = 7`, 'public.orders (customer_id)'],
    [`SELECT * FROM orders WHERE customer_id = $1`, 'public.orders (customer_id)'],
  ])('%s gets an index that its plan then uses', async (query, on) => {
    const sql = await advised(query)
    expect(sql).toEqual([`CREATE INDEX CONCURRENTLY ON ${on};`])
    const made = (sql[0] ?? '').replace('CONCURRENTLY ON', 'advised ON')
    await server.postgres.run(`${made} ANALYZE orders, customers`)
    server.catalogue.forget(server.database())
    const { rows } = await server.postgres.run(`EXPLAIN (COSTS off) ${query.replace('$1', '42')}`)
    expect(JSON.stringify(rows)).toContain('advised')
    expect(await advised(query)).toEqual([])
    await server.postgres.run('DROP INDEX advised')
    server.catalogue.forget(server.database())
  })

  test.each([
    'SELECT 1',
    'SELECT * FROM orders WHERE id = 5',
    `SELECT * FROM orders WHERE status = 'open'`,
    'SELECT count(*) FROM orders',
    'SELECT * FROM pg_class WHERE relpages = 12345',
  ])('%s gets no index', async query => {
    expect(await call({ query })).toMatchObject({ isError: false, text: expect.stringContaining('No index to advise') })
  })

  test('on a partitioned table gets one index for all partitions', async () => {
    await server.postgres.run(`
      CREATE TABLE events (id int, kind int) PARTITION BY RANGE (id);
      CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (20000);
      CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (20000) TO (40000);
      INSERT INTO events SELECT n, n FROM generate_series(0, 39999) n; ANALYZE events`)
    server.catalogue.forget(server.database())
    const { text } = await call({ query: 'SELECT * FROM events WHERE kind = 7' })
    expect(text.match(/CREATE INDEX.*;/g)).toEqual(['CREATE INDEX ON public.events (kind);'])
  })

  test('on a table that was never analyzed gets a note', async () => {
    const { text } = await call({ query: 'SELECT * FROM fresh WHERE id = 5' })
    expect(text).toContain('note: public.fresh was never analyzed: run ANALYZE first')
  })

  test('without HypoPG gets advice with a note that nothing was measured', async () => {
    const { text } = await call({ query: 'SELECT * FROM orders WHERE customer_id = 42' })
    expect(text).toMatch(/^Database: main\. Cost of the plan: \d+/)
    expect(text).toMatch(/orders: reads all ~60000 rows to keep ~3 /)
    expect(text).toContain('the extension hypopg is not installed')
  })
})

test.each([
  ['DELETE FROM orders', 'query: must be a SELECT; this is DELETE.'],
  ['EXPLAIN SELECT 1', 'must be a SELECT'],
  ['SELECT 1; DELETE FROM orders', '2 statements'],
  ['SELECT writes()', 'writes'],
  ['WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone', 'writes in a WITH'],
  [`SELECT pg_read_file('/etc/passwd')`, 'pg_read_file'],
  ['ANALYZE) DELETE FROM orders; --', 'syntax error'],
  ['SELECT nothing FROM nowhere', 'LINE 1: SELECT nothing FROM nowhere\n                            ^'],
  ['SELEKT', 'syntax error'],
])('refuses %s, and runs nothing', async (query, problem) => {
  const { text, isError } = await call({ query })
  expect(isError, text).toBe(true)
  expect(text).toContain(problem)
  expect((await server.postgres.run('SELECT count(*)::int AS count FROM orders')).rows).toEqual([{ count: 60_000 }])
})

test('gives no advice on tables that the role may not read', async () => {
  const { text, isError } = await call(
    { query: 'SELECT * FROM orders WHERE customer_id = 42' },
    { user: 'reader', name: 'reader' },
  )
  expect(isError).toBe(true)
  expect(text).toContain('permission denied')
})

test('without a statement, lists foreign keys without an index, and tables that are often read', async () => {
  for (let time = 0; time < 12; time++) await server.postgres.run('SELECT count(*) FROM orders')
  await expect.poll(async () => (await call({})).text).toMatch(/public\.orders: \d+ complete reads, ~\d{5} rows each/)
  const { text } = await call({})
  expect(text).toContain(
    'CREATE INDEX CONCURRENTLY ON public.orders (customer_id); -- the foreign key orders_customer_id_fkey',
  )
  const hasKey = async () => (await call({})).text.includes('orders_customer_id_fkey')
  await server.postgres.run('CREATE INDEX elsewhere ON orders (status, customer_id)')
  expect(await hasKey()).toBe(true)
  await server.postgres.run('CREATE INDEX partly ON orders (customer_id) WHERE id > 5')
  expect(await hasKey()).toBe(true)
  await server.postgres.run('CREATE INDEX serving ON orders (customer_id, status)')
  expect(await hasKey()).toBe(false)
})
