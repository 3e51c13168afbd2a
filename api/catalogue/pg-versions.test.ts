/** An installation that has images of only some Postgres versions. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, expectError, startClient } from '../testing/client.ts'
import { configurationOf } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient({ configuration: configurationOf({ pgVersions: ['16', '17'], pgvectorVersions: ['16'] }) })
})
afterAll(() => client.close())

test('lists the available versions, newest first; the newest is the default; shows which versions have pgvector', async () => {
  expect((await client.call('GET', '/pg-versions')).body).toEqual([
    { version: '17', default: true, pgvector: false },
    { version: '16', default: false, pgvector: true },
  ])
})

test('creates databases of the available versions, and refuses any other by name', async () => {
  expect((await client.create('older', { pg_version: '16' })).body.pg_version).toBe('16')
  expect((await client.create('plain')).body.pg_version).toBe('17')
  expectError(
    await client.create('newer', { pg_version: '18' }),
    400,
    'pg_version: Postgres 18 is not available here; available: 17, 16',
  )
})
