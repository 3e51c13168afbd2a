import type { Client } from 'pg'
import { expect, test } from 'vitest'
import { createApplier } from './apply.ts'
import { toPostgresTime } from './pgoutput.ts'

/** A test double of the target. `query` reports the number of inserted rows, or the number that `rowsOf` returns. */
function target(rowsOf: (sql: string) => number | undefined = () => undefined) {
  const sent: string[] = []
  const query = async (sql: string) => {
    sent.push(sql)
    return sql.split(';\n').map(one => ({ rowCount: rowsOf(one) ?? one.split('), (').length }))
  }
  // The applier uses only `query`.
  return { sent, client: { query } as unknown as Client }
}

const int = (value: number, length: number) => {
  const buffer = Buffer.alloc(length)
  buffer.writeUIntBE(value, 0, length)
  return buffer
}
const long = (value: bigint) => {
  const buffer = Buffer.alloc(8)
  buffer.writeBigUInt64BE(value)
  return buffer
}
const message = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map(part => Buffer.from(part as string)))
const row = (id: string) => message(int(1, 2), 't', int(id.length, 4), id)
const begin = message('B')
const table = message('R', int(7, 4), 'public\0', 't\0', 'd', int(1, 2), int(1, 1), 'id\0', int(23, 4), int(0, 4))
const insertion = (id: string) => message('I', int(7, 4), 'N', row(id))
const deletion = (id: string) => message('D', int(7, 4), 'K', row(id))
const commit = (end: bigint) => message('C', int(0, 1), long(1n), long(end), long(toPostgresTime(Date.now())))

const insert = `INSERT INTO "public"."t" ("id") OVERRIDING SYSTEM VALUE VALUES`

test('transactions are applied in order, and their position is committed with them', async () => {
  const { sent, client } = target()
  const applier = createApplier(client, '0/5')
  for (const one of [begin, table, insertion('1'), insertion('2'), deletion('1'), commit(9n)])
    await applier.message(one)
  expect(sent).toEqual([])
  await applier.settle()
  expect(sent).toEqual([
    'BEGIN; SET CONSTRAINTS ALL DEFERRED',
    `${insert} ('1'), ('2');\nDELETE FROM ONLY "public"."t" WHERE "id" = '1'`,
    expect.stringMatching(/^ UPDATE espalier_move\.state SET position = '0\/9', .*; COMMIT$/),
  ])
  expect([applier.position(), applier.changes()]).toEqual([9n, 3])
})

test('no part of a transaction is committed before its end, even if it is large', async () => {
  const { sent, client } = target()
  const applier = createApplier(client, '0/5')
  for (const one of [begin, table]) await applier.message(one)
  for (let id = 0; id < 5_000; id++) await applier.message(insertion(String(id)))
  await applier.settle()
  applier.reached(20n)
  expect(sent.length).toBeGreaterThan(2)
  expect(sent.join()).not.toContain('COMMIT')
  expect(applier.position()).toBe(5n)
  await applier.message(commit(9n))
  await applier.settle()
  expect(sent.filter(sql => sql.endsWith('COMMIT'))).toHaveLength(1)
  expect(applier.position()).toBe(9n)
  applier.reached(20n)
  expect([applier.position(), applier.recorded()]).toEqual([20n, 9n])
  await applier.settle()
  expect(applier.recorded()).toBe(9n)
  await applier.settle(true)
  expect(applier.recorded()).toBe(20n)
  expect(sent.at(-1)).toContain("position = '0/14'")
})

test('a complete transaction is not committed together with a part of the next one', async () => {
  const { sent, client } = target()
  const applier = createApplier(client, '0/5')
  for (const one of [begin, table, insertion('1'), commit(7n), begin]) await applier.message(one)
  applier.reached(20n)
  await applier.message(insertion('2'))
  await applier.settle()
  applier.reached(20n)
  expect([sent, applier.position()]).toEqual([[], 5n])
  await applier.message(commit(9n))
  await applier.settle()
  expect(sent.join()).toContain(`${insert} ('1'), ('2')`)
  expect(sent.join()).toContain("position = '0/9'")
})

test('the applied position does not change within a transaction', async () => {
  const applier = createApplier(target().client, '0/5')
  await applier.message(begin)
  applier.reached(20n)
  expect(applier.position()).toBe(5n)
})

test.each([0, 2])('a change that finds %i rows is not committed', async count => {
  const { sent, client } = target(sql => (sql.startsWith('DELETE') ? count : undefined))
  const applier = createApplier(client, '0/5')
  for (const one of [begin, table, deletion('1'), commit(9n)]) await applier.message(one)
  await expect(applier.settle()).rejects.toThrow(`"public"."t" found ${count} rows instead of 1`)
  expect(sent.join()).not.toContain('COMMIT')
  expect(applier.position()).toBe(5n)
})
