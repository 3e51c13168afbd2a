/** top_queries on a real Postgres with pg_stat_statements, and with parts of it missing. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { answerOf, type CatalogueTest, startCatalogueTest } from '../catalogue/testing/server.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import { callTool } from '../testing/calls.ts'
import { topQueries } from './top-queries.ts'

let server: CatalogueTest
let plain: CatalogueTest
beforeAll(async () => {
  ;[server, plain] = await Promise.all([
    startCatalogueTest({ shared_preload_libraries: 'pg_stat_statements' }),
    startCatalogueTest(),
  ])
  await server.postgres.run('CREATE DATABASE counted')
  await server.postgres.run(
    `CREATE SCHEMA "Tools here"; CREATE EXTENSION pg_stat_statements SCHEMA "Tools here"; CREATE ROLE reader LOGIN`,
    'counted',
  )
  // On a busy machine, setup statements may have taken longer than the statements that the test expects.
  await server.postgres.run('SELECT "Tools here".pg_stat_statements_reset()', 'counted')
  await server.postgres.run('CREATE TABLE many (id int); INSERT INTO many SELECT generate_series(1, 5000)', 'counted')
  await server.postgres.run('SELECT pg_sleep(0.2) AS slow', 'counted')
  for (let time = 0; time < 5; time++) await server.postgres.run(`SELECT ${time} AS\n\t often`, 'counted')
  await server.postgres.run('SELECT 1 AS elsewhere')
})
afterAll(() => Promise.all([server?.stop(), plain?.stop()]))

async function call(args: JsonObject, changed: Partial<DatabaseSettings> = {}, { access, limits, entries } = server) {
  const tool = topQueries({ entries: entries({ database: 'counted', ...changed }), access, limits })
  return answerOf(await callTool(tool, args))
}

/** The columns of each line of the answer, by name. */
function table(text: string): Record<string, string>[] {
  const [heads = '', ...lines] = text.split('\n').slice(4, -1)
  return lines.map(line => {
    const cells = line.split('\t')
    return Object.fromEntries(heads.split('\t').map((head, at) => [head, cells[at] ?? '']))
  })
}

describe('top_queries', () => {
  test('lists the most expensive statements of this database, in any schema of the extension', async () => {
    const { text, isError } = await call({})
    expect(isError).toBe(false)
    const [first] = table(text)
    expect(first).toMatchObject({ calls: '1', role: 'postgres', query: 'SELECT pg_sleep($1) AS slow' })
    expect(Number(first?.total_ms)).toBeGreaterThan(199)
    expect(Number.parseFloat(first?.share ?? '')).toBeGreaterThan(20)
    expect((await call({ limit: 50 })).text).not.toContain('elsewhere')
  })

  test('orders and limits as requested', async () => {
    const byCalls = table((await call({ order_by: 'calls', limit: 50 })).text)
    const calls = byCalls.map(row => Number(row.calls))
    expect(calls).toEqual(calls.toSorted((one, other) => other - one))
    expect(byCalls.find(row => row.query === 'SELECT $1 AS often')?.calls).toBe('5')
    expect(table((await call({ order_by: 'rows', limit: 1 })).text)).toMatchObject([{ rows: '5000' }])
    for (const order_by of ['mean_time', 'max_time', 'blocks', 'temp', 'wal'])
      expect((await call({ order_by })).isError, order_by).toBe(false)
    expect(await call({ order_by: 'fame' })).toMatchObject({ isError: true, text: expect.stringContaining('order_by') })
  })

  test('hides statements that may contain a password, but no other statements', async () => {
    await server.postgres.run("ALTER ROLE reader PASSWORD 'hunter2'", 'counted')
    await server.postgres.run("SELECT 'a' AS password", 'counted')
    const { text } = await call({ order_by: 'calls', limit: 50 })
    expect(text).toContain('(hidden)')
    expect(text).toContain('AS password')
    expect(text).not.toContain('hunter2')
  })

  test('hides statements of other roles from a role without privileges', async () => {
    await server.postgres.run('GRANT USAGE ON SCHEMA "Tools here" TO reader', 'counted')
    const { text } = await call({}, { user: 'reader', name: 'reader' })
    expect(text).toContain('<insufficient privilege>')
    expect(text).not.toContain('pg_sleep')
  })

  test('reports how to install the extension if it is missing', async () => {
    expect(await call({}, { database: 'postgres' })).toEqual({
      isError: true,
      text: 'pg_stat_statements is not enabled here. To enable it: run CREATE EXTENSION pg_stat_statements in this database.',
    })
    const other = await call({}, { database: 'postgres' }, plain)
    expect(other.text).toContain('shared_preload_libraries and restart Postgres, then run CREATE EXTENSION')
    await plain.postgres.run('CREATE EXTENSION pg_stat_statements')
    const created = await call({}, { database: 'postgres' }, plain)
    expect(created.text).toMatch(
      /To enable it: add pg_stat_statements to shared_preload_libraries and restart Postgres\.$/,
    )
  })
})
