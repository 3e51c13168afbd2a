/**
 * Isolation on a connection, against a real Postgres: between runs, and between the connection's prepared statements
 * and those of functions.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../testing/postgres.ts'
import { connectionAddress } from './address.ts'
import { Connection } from './connection.ts'
import type { Step } from './run.ts'

let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres('18')
})
afterAll(() => postgres?.stop())

async function open(): Promise<Connection> {
  const connection = await Connection.open(
    connectionAddress(postgres.uri('postgres')),
    () => 0,
    () => {},
  )
  onTestFinished(() => connection.close())
  return connection
}

const step = (text: string, ...values: string[]): Step => ({ text, values })
/** The single cell of the last step. */
async function cell(connection: Connection, prepared: boolean, ...steps: Step[]): Promise<string> {
  const results = await connection.run(steps, prepared)
  return String(results.at(-1)?.[0]?.[0])
}
const preparedName = step('SELECT min(name) FROM pg_prepared_statements')
const preparedCount = step('SELECT count(*)::text FROM pg_prepared_statements')

describe('a connection', () => {
  test('sends nothing of a run that cannot be encoded as messages', async () => {
    const connection = await open()
    const tooMany: Step = { text: 'SELECT 1', values: new Array<string>(65_536).fill('') }
    await expect(connection.run([step('CREATE TABLE half_sent ()'), tooMany], true)).rejects.toThrow(RangeError)
    expect(await cell(connection, true, step(`SELECT coalesce(to_regclass('half_sent')::text, 'none')`))).toBe('none')
    expect(connection.isUsable).toBe(true)
  })

  test('closes every prepared statement that it evicts, even if that run fails', async () => {
    const connection = await open()
    const failing = step(`SELECT 1 / length($1::text)`, '')
    await expect(connection.run([failing], true)).rejects.toThrow()
    for (let round = 0; round < 400; round++) {
      await connection.run([step(`SELECT ${round}`)], true)
      // The first statement is cached. The second would replace another one, but the run does not reach it.
      await expect(connection.run([failing, step(`SELECT -${round}`)], true)).rejects.toThrow()
    }
    expect(Number(await cell(connection, false, preparedCount))).toBeLessThanOrEqual(300)
  })

  test('prepares a statement only once if a run contains it twice', async () => {
    const connection = await open()
    const same = step('SELECT 1')
    await connection.run([same, same], true)
    await connection.run([same], true)
    expect(await cell(connection, false, preparedCount)).toBe('1')
  })

  test('limits the text length of its prepared statements', async () => {
    const connection = await open()
    const long = (number: number) => step(`SELECT 'x' AS "${number}" ${' '.repeat(100_000)}`)
    for (let number = 0; number < 20; number++)
      expect(await cell(connection, true, step('SELECT 2'), long(number))).toBe('x')
    expect(Number(await cell(connection, false, preparedCount))).toBeLessThanOrEqual(7)
  })

  test('does not cache a statement over the limit, and still separates the statements of a run', async () => {
    const connection = await open()
    const huge = step(`SELECT 'huge' ${' '.repeat(600_000)}`)
    for (let round = 0; round < 2; round++) {
      const results = await connection.run([step(`SELECT 'first'`), huge, step(`SELECT 'last'`)], true)
      expect(results.map(rows => String(rows[0]?.[0]))).toEqual(['first', 'huge', 'last'])
    }
    expect(await cell(connection, false, preparedCount)).toBe('2')
  })

  test("uses unique names, so that connections do not run each other's statements behind a pooler", async () => {
    const names = new Set<string>()
    for (const connection of [await open(), await open()]) {
      await connection.run([step('SELECT 1')], true)
      names.add(await cell(connection, false, preparedName))
    }
    expect(names.size).toBe(2)
  })

  test.each(['DEALLOCATE ALL', 'DEALLOCATE NAME; PREPARE NAME AS SELECT 1, 2'])(
    'is closed if its prepared statements were changed: %s',
    async sql => {
      const connection = await open()
      const known = step('SELECT $1::text', 'mine')
      await connection.run([known], true)
      const own = await cell(connection, false, preparedName)
      for (const one of sql.replaceAll('NAME', own).split('; ')) await connection.run([step(one)], false)
      await expect(connection.run([known], true)).rejects.toThrow()
      expect(connection.isUsable).toBe(false)
    },
  )

  test('is closed if a function has used one of its statement names', async () => {
    const connection = await open()
    await connection.run([step('SELECT 1')], true)
    const next = (await cell(connection, false, preparedName)).replace(/1$/, '2')
    await connection.run([step(`PREPARE ${next} AS SELECT 1`)], false)
    await expect(connection.run([step('SELECT 3')], true)).rejects.toMatchObject({ sqlState: '42P05' })
    expect(connection.isUsable).toBe(false)
  })

  test("is closed if a prepared statement's result type changes", async () => {
    const connection = await open()
    await connection.run([step('CREATE TABLE changing (a int)')], false)
    await connection.run([step('SELECT * FROM changing')], true)
    await connection.run([step('ALTER TABLE changing ADD b int')], false)
    await expect(connection.run([step('SELECT * FROM changing')], true)).rejects.toMatchObject({ sqlState: '0A000' })
    expect(connection.isUsable).toBe(false)
  })
})
