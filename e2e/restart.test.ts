/**
 * The complete process tree is killed at random moments and started again: same databases, same data, same credentials.
 */
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect, createApiClient, type Database, eventually, openToThisMachine, query } from './client.ts'
import { createHome, type Home } from './process.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})
afterEach(() => home.remove())

const rounds = 5

test('kill -9 of all processes during writes loses no acknowledged write', async () => {
  let running = await home.run()
  let api = createApiClient(running.api, running.token)
  const created = await api.create({ name: 'survivor', ip_allowlist: openToThisMachine })
  expect(created.body.status).toBe('available')
  const { id } = created.body
  const connection = await api.connection(id)
  await query(connection, 'CREATE TABLE written (n bigint PRIMARY KEY)')
  const acknowledged = new Set<number>()
  let attempted = 0

  for (let round = 0; round < rounds; round++) {
    const client = await connect(connection)
    const writing = (async () => {
      for (;;) {
        const n = ++attempted
        await client.query('INSERT INTO written VALUES ($1)', [n])
        acknowledged.add(n)
      }
    })().catch(() => undefined)
    // The API writes at the same time, so that some kills happen during a write of the store.
    const churn = api.create({ name: `churn${round}` }, {}).catch(() => undefined)
    await sleep(randomInt(20, 700))
    await home.kill()
    await Promise.all([writing, churn])

    running = await home.run()
    api = createApiClient(running.api, running.token)
    await eventually('the database is available again', async () => (await api.read(id)).body.status === 'available')
    expect(await api.connection(id)).toEqual(connection)
    const rows = await eventually('Postgres returns the rows', async () =>
      query<{ n: string }>(connection, 'SELECT n FROM written ORDER BY n'),
    )
    const numbers = new Set(rows.map(row => Number(row.n)))
    expect([...acknowledged].filter(n => !numbers.has(n))).toEqual([])
    const { body: list } = await api.call<Database[]>('GET', '/databases')
    expect(list.map(database => database.name)).toContain('survivor')
    await eventually('every database is available', async () => {
      const { body } = await api.call<Database[]>('GET', '/databases')
      return body.every(database => database.status === 'available')
    })
  }
  expect(acknowledged.size).toBeGreaterThan(0)
}, 180_000)

test('a clean stop and a new start keep everything, and no process remains', async () => {
  const first = await home.run()
  const api = createApiClient(first.api, first.token)
  const { body } = await api.create({ name: 'kept', ip_allowlist: openToThisMachine })
  const connection = await api.connection(body.id)
  await query(connection, 'CREATE TABLE kept AS SELECT 7 AS n')
  await home.stop()
  await expect(connect(connection)).rejects.toThrow()
  const second = await home.run()
  const again = createApiClient(second.api, first.token)
  await eventually('the database is available', async () => (await again.read(body.id)).body.status === 'available')
  expect(await query(connection, 'SELECT n FROM kept')).toEqual([{ n: 7 }])
}, 180_000)
