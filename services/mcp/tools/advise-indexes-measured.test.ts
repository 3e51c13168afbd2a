/**
 * advise_indexes with HypoPG: the planner decides which of the indexes it would use. The planner uses these indexes
 * after their creation, and no hypothetical index remains.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasHypopg, startHypopg } from '../../testing/hypopg.ts'
import { answerOf, type CatalogueTest, catalogueTestOf } from '../catalogue/testing/server.ts'
import { createCatalogue } from '../database/catalogue.ts'
import { callContext } from '../testing/calls.ts'
import { adviseIndexes } from './advise-indexes.ts'

function measured(): void {
  let server: CatalogueTest
  beforeAll(async () => {
    server = catalogueTestOf(await startHypopg())
    await server.postgres.run(`
      CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA "own tools" TO reader;
      CREATE TABLE orders (id int PRIMARY KEY, customer_id int, status text, at timestamptz);
      INSERT INTO orders SELECT n, n % 20000 + 1, (ARRAY['open','done'])[n % 2 + 1], now() - n * interval '1 minute' FROM generate_series(1, 60000) n;
      CREATE TABLE notes (order_id int, text text);
      INSERT INTO notes SELECT n % 100, 'note ' || n FROM generate_series(1, 60000) n;
      GRANT SELECT ON orders, notes TO reader; ANALYZE orders, notes`)
  })
  afterAll(() => server?.stop())

  async function adviceFor(query: string, user = 'reader'): Promise<string> {
    const { access, catalogue, limits } = server
    const statements = createCatalogue(access, () => {})
    // With one connection, a call would detect hypothetical indexes that the previous call left in the session.
    const entries = server.entries({ user, poolSize: 1 })
    const tool = adviseIndexes({ entries, access, catalogue, statements, limits })
    const { text, isError } = answerOf(await tool.call({ query }, callContext()))
    expect(isError, text).toBe(false)
    return text
  }
  const costsIn = (text: string): number[] => {
    const [, before, after] =
      /Cost of the plan: ([\d.]+), with the indexes that are used: ([\d.]+) \(HypoPG\)/.exec(text) ?? []
    return [Number(before), Number(after)]
  }

  test("the predicted cost matches the planner's cost after the index is created", async () => {
    const query = 'SELECT * FROM orders WHERE customer_id = 42'
    const text = await adviceFor(query)
    expect(text).toContain('CREATE INDEX CONCURRENTLY ON public.orders (customer_id); --')
    const [before = 0, after = 0] = costsIn(text)
    expect(after).toBeLessThan(before / 10)
    await server.postgres.run('CREATE INDEX made ON orders (customer_id)')
    const { rows } = await server.postgres.run(`EXPLAIN (FORMAT JSON) ${query}`)
    const [
      {
        'QUERY PLAN': [{ Plan: plan }],
      },
    ] = rows
    expect(Math.abs(plan['Total Cost'] - after)).toBeLessThan(after / 2)
    await server.postgres.run('DROP INDEX made')
  })

  test('reports an index that the planner would not use; after its creation the planner does not use it', async () => {
    const query =
      'SELECT * FROM orders o JOIN notes n ON n.order_id = o.customer_id WHERE o.id = 7 ORDER BY n.text LIMIT 3'
    const text = await adviceFor(query)
    expect(text).toContain('CREATE INDEX CONCURRENTLY ON public.notes (order_id); --')
    expect(text).toContain('not useful: CREATE INDEX CONCURRENTLY ON public.notes (text); --')
    await server.postgres.run('CREATE INDEX advised ON notes (order_id); CREATE INDEX unused ON notes (text)')
    const plan = JSON.stringify((await server.postgres.run(`EXPLAIN (FORMAT JSON) ${query}`)).rows)
    expect([plan.includes('advised'), plan.includes('unused')]).toEqual([true, false])
    await server.postgres.run('DROP INDEX advised, unused')
  })

  test('leaves no hypothetical and no real index', async () => {
    await adviceFor('SELECT * FROM orders WHERE customer_id = 42')
    const again = await adviceFor('SELECT * FROM orders WHERE customer_id = 42')
    expect(costsIn(again)[0]).toBeGreaterThan(1_000)
    const { rows } = await server.postgres.run(
      `SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'orders'::regclass`,
    )
    expect(rows).toEqual([{ indexrelid: 'orders_pkey' }])
  })
}

if (hasHypopg) describe('with HypoPG', measured)
else test.skip('measured advice: needs a Postgres with HypoPG', () => {})
