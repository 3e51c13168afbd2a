/** The memory of catalogues: how often Postgres is asked, for whom, and what a caller that goes away takes along. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
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
    read: (...asked) => {
      reads += 1
      return server.access.read(...asked)
    },
  }
  catalogue = createCatalogue(access, () => now)
})

const reading = (context: Partial<CallContext> = {}, changed = {}) => ({
  database: server.database({ metadataMs: 1_000, ...changed }),
  context: callContext(context),
  tool: 'test',
})

test('who asks at once shares one look', async () => {
  const all = await Promise.all(Array.from({ length: 20 }, () => catalogue.overview(reading())))
  expect(new Set(all).size).toBe(1)
  expect(reads).toBe(1)
})

test('who goes away takes the look along, and the others look again', async () => {
  const gone = new AbortController()
  const first = catalogue.overview(reading({ signal: gone.signal }))
  const second = catalogue.overview(reading())
  gone.abort(new Error('gone'))
  await expect(first).rejects.toThrow('gone')
  expect((await second).relations.map(({ name }) => name)).toEqual(['one'])
  expect(reads).toBe(2)
})

test('what was read is believed for a while, by role and database, and details by table', async () => {
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

test('what is forgotten is read again, also where the look had begun before', async () => {
  const begun = catalogue.overview(reading())
  catalogue.forget(server.database())
  now += 1
  await Promise.all([begun, catalogue.overview(reading())])
  expect(reads).toBe(2)
  await catalogue.overview(reading())
  expect(reads).toBe(2)
})

test('nothing is remembered where nothing is to be believed', async () => {
  for (let time = 0; time < 3; time++) {
    await catalogue.overview(reading({}, { metadataMs: 0 }))
    now += 1
  }
  expect(reads).toBe(3)
})
