/**
 * The catalogue cache: how often the server queries Postgres, for which role, and what happens when a caller aborts.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess } from '../database/access.ts'
import { callContext } from '../testing/calls.ts'
import { type Catalogue, createCatalogue } from './index.ts'
import { type CatalogueTest, startCatalogueTest } from './testing/server.ts'

let server: CatalogueTest
let catalogue: Catalogue
let reads = 0
let now = 0
beforeAll(async () => {
  server = await startCatalogueTest()
  await server.postgres.run('CREATE TABLE one (id int); CREATE ROLE other LOGIN')
})
afterAll(() => server?.stop())
beforeEach(() => {
  reads = 0
  const access: DatabaseAccess = {
    read: (...args) => {
      reads += 1
      return server.access.read(...args)
    },
  }
  catalogue = createCatalogue(access, () => now)
})

const reading = (context: Partial<CallContext> = {}, changed = {}) => ({
  database: server.database({ metadataMs: 1_000, ...changed }),
  context: callContext(context),
  tool: 'test',
})

test('concurrent callers share one read', async () => {
  const all = await Promise.all(Array.from({ length: 20 }, () => catalogue.overview(reading())))
  expect(new Set(all).size).toBe(1)
  expect(reads).toBe(1)
})

test('if a caller aborts, its read aborts and the other callers read again', async () => {
  const leaving = new AbortController()
  const first = catalogue.overview(reading({ signal: leaving.signal }))
  const second = catalogue.overview(reading())
  leaving.abort(new Error('gone'))
  await expect(first).rejects.toThrow('gone')
  expect((await second).relations.map(({ name }) => name)).toEqual(['one'])
  expect(reads).toBe(2)
})

test('caches overviews by role and database, and details by table, until they expire', async () => {
  const { relations } = await catalogue.overview(reading())
  await catalogue.overview(reading({}, { name: 'same under another name' }))
  expect(reads).toBe(1)
  expect((await catalogue.overview(reading({}, { user: 'other' }))).relations).toEqual([])
  expect(reads).toBe(2)
  await catalogue.details(reading(), relations)
  await catalogue.details(reading(), relations)
  expect(reads).toBe(3)
  now += 1_001
  await catalogue.overview(reading())
  await catalogue.details(reading(), relations)
  expect(reads).toBe(5)
})

test('reads again after an invalidation, also if a read started before the invalidation', async () => {
  const begun = catalogue.overview(reading())
  catalogue.forget(server.database())
  now += 1
  await Promise.all([begun, catalogue.overview(reading())])
  expect(reads).toBe(2)
  await catalogue.overview(reading())
  expect(reads).toBe(2)
})

test('caches nothing if the lifetime is 0', async () => {
  for (let time = 0; time < 3; time++) {
    await catalogue.overview(reading({}, { metadataMs: 0 }))
    now += 1
  }
  expect(reads).toBe(3)
})

/** The text that a caller sees for the table `one`, and the number of reads that this took. */
async function seen(): Promise<{ text: string; reads: number }> {
  const before = reads
  const overview = await catalogue.overview(reading({}, lasting))
  const details = await catalogue.details(reading({}, lasting), overview.relations)
  return { text: JSON.stringify([overview, [...details.values()]]), reads: reads - before }
}
const lasting = { metadataMs: 300_000 }

describe('the cache', () => {
  beforeAll(() => server.postgres.run('CREATE TABLE written (id int)'))

  test('is used while nothing changes: no read within a second, then one small read', async () => {
    const first = await seen()
    expect(await seen()).toEqual({ text: first.text, reads: 0 })
    now += 1_000
    await server.postgres.run('INSERT INTO written VALUES (1)')
    const overview = await catalogue.overview(reading({}, lasting))
    expect(await seen()).toEqual({ text: first.text, reads: 0 })
    now += 1_000
    expect(await catalogue.overview(reading({}, lasting))).toBe(overview)
    now += 1_000
    expect(await seen()).toEqual({ text: first.text, reads: 1 })
  })

  test.each([
    ['a table', 'CREATE TABLE another (id int)', 'DROP TABLE another'],
    ['a schema', 'CREATE SCHEMA further', 'DROP SCHEMA further'],
    ['a column', 'ALTER TABLE one ADD n int', 'ALTER TABLE one DROP n'],
    ['the name of a column', 'ALTER TABLE one RENAME id TO key', 'ALTER TABLE one RENAME key TO id'],
    ['the type of a column', 'ALTER TABLE one ALTER id TYPE bigint', 'ALTER TABLE one ALTER id TYPE int'],
    ['a default', 'ALTER TABLE one ALTER id SET DEFAULT 7', 'ALTER TABLE one ALTER id DROP DEFAULT'],
    ['not null', 'ALTER TABLE one ALTER id SET NOT NULL', 'ALTER TABLE one ALTER id DROP NOT NULL'],
    [
      'a constraint',
      'ALTER TABLE one ADD CONSTRAINT positive CHECK (id > 0)',
      'ALTER TABLE one DROP CONSTRAINT positive',
    ],
    ['an index', 'CREATE INDEX by_id ON one (id)', 'DROP INDEX by_id'],
    ['a comment', `COMMENT ON COLUMN one.id IS 'the key'`, 'COMMENT ON COLUMN one.id IS NULL'],
  ])('is read again after %s has changed, and after the change was reverted', async (_, change, back) => {
    const { text } = await seen()
    await server.postgres.run(change)
    now += 1_000
    const changed = await seen()
    expect(changed.text).not.toBe(text)
    await server.postgres.run(back)
    now += 1_000
    expect((await seen()).text).not.toBe(changed.text)
  })

  test('is read again after a privilege of the role has changed, directly or through a role membership', async () => {
    const names = async () => {
      now += 1_000
      const { relations } = await catalogue.overview(reading({}, { ...lasting, user: 'other' }))
      return relations.map(({ name }) => name)
    }
    expect(await names()).toEqual([])
    await server.postgres.run('GRANT SELECT (id) ON one TO other')
    expect(await names()).toEqual(['one'])
    await server.postgres.run(
      'REVOKE SELECT (id) ON one FROM other; CREATE ROLE readers; GRANT SELECT ON written TO readers',
    )
    expect(await names()).toEqual([])
    await server.postgres.run('GRANT readers TO other')
    expect(await names()).toEqual(['written'])
    await server.postgres.run('ALTER ROLE other SUPERUSER')
    expect(await names()).toContain('one')
  })
})
