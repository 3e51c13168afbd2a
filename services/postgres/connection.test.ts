/** What a connection must keep apart: one run from the next, and its prepared statements from those of functions. Against a real Postgres. */
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
/** The only cell of the last step. */
async function cell(connection: Connection, prepared: boolean, ...steps: Step[]): Promise<string> {
  const results = await connection.run(steps, prepared)
  return String(results.at(-1)?.[0]?.[0])
}
const preparedName = step('SELECT min(name) FROM pg_prepared_statements')
const preparedCount = step('SELECT count(*)::text FROM pg_prepared_statements')

describe('a connection', () => {
  test('sends nothing of a run that could not be put into messages', async () => {
    const connection = await open()
    const tooMany: Step = { text: 'SELECT 1', values: new Array<string>(65_536).fill('') }
    await expect(connection.run([step('CREATE TABLE half_sent ()'), tooMany], true)).rejects.toThrow(RangeError)
    expect(await cell(connection, true, step(`SELECT coalesce(to_regclass('half_sent')::text, 'none')`))).toBe('none')
    expect(connection.isUsable).toBe(true)
  })

  test('leaves no statement prepared that it has forgotten, even where the run that forgets it fails', async () => {
    const connection = await open()
    const failing = step(`SELECT 1 / length($1::text)`, '')
    await expect(connection.run([failing], true)).rejects.toThrow()
    for (let round = 0; round < 400; round++) {
      await connection.run([step(`SELECT ${round}`)], true)
      // The first statement is known; the second would take the place of another, and is never reached.
      await expect(connection.run([failing, step(`SELECT -${round}`)], true)).rejects.toThrow()
    }
    expect(Number(await cell(connection, false, preparedCount))).toBeLessThanOrEqual(300)
  })

  test('prepares a statement once that stands twice in a run', async () => {
    const connection = await open()
    const same = step('SELECT 1')
    await connection.run([same, same], true)
    await connection.run([same], true)
    expect(await cell(connection, false, preparedCount)).toBe('1')
  })

  test('keeps only so much text prepared', async () => {
    const connection = await open()
    const long = (mark: number) => step(`SELECT 'x' AS "${mark}" ${' '.repeat(100_000)}`)
    for (let mark = 0; mark < 20; mark++) expect(await cell(connection, true, step('SELECT 2'), long(mark))).toBe('x')
    expect(Number(await cell(connection, false, preparedCount))).toBeLessThanOrEqual(7)
  })

  test('does not keep what is longer than all it keeps, and still tells the statements of a run apart', async () => {
    const connection = await open()
    const huge = step(`SELECT 'huge' ${' '.repeat(600_000)}`)
    for (let round = 0; round < 2; round++) {
      const results = await connection.run([step(`SELECT 'first'`), huge, step(`SELECT 'last'`)], true)
      expect(results.map(rows => String(rows[0]?.[0]))).toEqual(['first', 'huge', 'last'])
    }
    expect(await cell(connection, false, preparedCount)).toBe('2')
  })

  test('gives no name that another gives, so that neither runs the statement of the other where a pooler mixes them up', async () => {
    const names = new Set<string>()
    for (const connection of [await open(), await open()]) {
      await connection.run([step('SELECT 1')], true)
      names.add(await cell(connection, false, preparedName))
    }
    expect(names.size).toBe(2)
  })

  test.each(['DEALLOCATE ALL', 'DEALLOCATE NAME; PREPARE NAME AS SELECT 1, 2'])(
    'is given up once its statements are not its own any more: %s',
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

  test('is given up once a function has taken a name that it gives', async () => {
    const connection = await open()
    await connection.run([step('SELECT 1')], true)
    const next = (await cell(connection, false, preparedName)).replace(/1$/, '2')
    await connection.run([step(`PREPARE ${next} AS SELECT 1`)], false)
    await expect(connection.run([step('SELECT 3')], true)).rejects.toMatchObject({ sqlState: '42P05' })
    expect(connection.isUsable).toBe(false)
  })

  test('is given up once what it has prepared gives something else', async () => {
    const connection = await open()
    await connection.run([step('CREATE TABLE changing (a int)')], false)
    await connection.run([step('SELECT * FROM changing')], true)
    await connection.run([step('ALTER TABLE changing ADD b int')], false)
    await expect(connection.run([step('SELECT * FROM changing')], true)).rejects.toMatchObject({ sqlState: '0A000' })
    expect(connection.isUsable).toBe(false)
  })
})
