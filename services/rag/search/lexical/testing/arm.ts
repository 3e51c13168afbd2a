/** A lexical arm on a table in a test's Postgres. */
import pg from 'pg'
import { pino } from 'pino'
import type { TestPostgres } from '../../../../testing/postgres.ts'
import { Parameters } from '../../parameters.ts'
import type { RunStatement, SearchedTable } from '../../types.ts'
import { LexicalArm } from '../index.ts'

export type TestArm = {
  readonly arm: LexicalArm
  readonly warnings: string[]
  /** Texts of the statements that the arm itself has run. */
  readonly statements: string[]
  /** The clock in milliseconds, which a test sets. */
  readonly clock: { now: number }
  /** Returns the keys of the found rows, best first. */
  search(query: string, options?: SearchOptions): Promise<readonly string[]>
  scores(query: string, options?: SearchOptions): Promise<ReadonlyMap<string, number>>
  end(): Promise<void>
}

type SearchOptions = { readonly condition?: string; readonly matching?: number; readonly limit?: number }

/** The table must have the columns `id` and `content`. */
export async function startArm(postgres: TestPostgres, name: string, user = 'postgres'): Promise<TestArm> {
  const client = new pg.Client(postgres.uri(user))
  await client.connect()
  const texts = { getTypeParser: () => (value: string) => value }
  const rowsOf = (text: string, values: readonly unknown[]) =>
    client.query<(string | null)[], unknown[]>({ text, values: [...values], rowMode: 'array', types: texts })
  const statements: string[] = []
  const run: RunStatement = async ({ text, values = [] }) => {
    statements.push(text)
    const { fields, rows } = await rowsOf(text, values)
    return { columns: fields, rows }
  }
  const [described] = (await client.query(`SELECT oid, relkind AS kind FROM pg_class WHERE oid = $1::regclass`, [name]))
    .rows
  const columns = await client.query(`SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > 0`, [
    described.oid,
  ])
  const table: SearchedTable = {
    schema: 'public',
    name,
    kind: described.kind,
    oid: Number(described.oid),
    textColumn: 'content',
    vectorColumn: 'embedding',
    idExpression: 't.id::text',
    rowExpression: 't.id::text',
    columns: new Map(columns.rows.map(({ attname }) => [attname, { name: 'text', array: undefined }])),
  }
  const warnings: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => warnings.push(JSON.parse(line).msg) })
  const clock = { now: 1 }
  const arm = new LexicalArm({ table, run, logger, now: () => clock.now })
  async function found(query: string, { condition, matching, limit = 10 }: SearchOptions = {}) {
    const plan = await arm.prepare(query, new AbortController().signal)
    if (plan === undefined) return []
    const parameters = new Parameters()
    const { sql } = arm.query(plan, condition, parameters, limit, matching)
    return (await rowsOf(sql, parameters.values)).rows.map(([key, score]) => [String(key), Number(score)] as const)
  }
  return {
    arm,
    warnings,
    statements,
    clock,
    search: async (query, options) => (await found(query, options)).map(([key]) => key),
    scores: async (query, options) => new Map(await found(query, options)),
    end: () => client.end(),
  }
}
