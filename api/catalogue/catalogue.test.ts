/** The catalogue: lists and single entries. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, expectError, startClient } from '../testing/client.ts'
import { retiredSizeId, sizeId } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

test('lists the newest active version of each size, smallest first; has the price only on request and if it is known', async () => {
  const { body: plain } = await client.call('GET', '/sizes')
  expect(plain.map(({ name, version }: { name: string; version: number }) => `${name} ${version}`)).toEqual([
    'small 2',
    'large 1',
  ])
  for (const size of plain) expect(size).not.toHaveProperty('pricing')
  const { body: priced } = await client.call('GET', '/sizes?include=pricing')
  expect(priced[0].pricing).toEqual({ price_amount: 1500, currency: 'eur', billing_interval: 'month' })
  expect(priced[1]).not.toHaveProperty('pricing')
  expect(priced[0]).toMatchObject({
    status: 'active',
    deprecated_at: null,
    retired_at: null,
    postgres_settings: { work_mem: '4MB' },
  })
})

test('reads one size in any status', async () => {
  expect((await client.call('GET', `/sizes/${sizeId}`)).body).toMatchObject({
    name: 'small',
    version: 1,
    status: 'deprecated',
    deprecated_at: '2025-01-01T00:00:00.000Z',
    retired_at: null,
  })
  expect((await client.call('GET', `/sizes/${retiredSizeId}`)).body).toMatchObject({
    status: 'retired',
    retired_at: '2025-01-01T00:00:00.000Z',
  })
  expectError(await client.call('GET', `/sizes/${crypto.randomUUID()}`), 404, 'size not found')
})

test('lists regions, and Postgres versions, newest first, with one default', async () => {
  expect((await client.call('GET', '/regions')).body).toEqual([{ region: 'local' }])
  expect((await client.call('GET', '/pg-versions')).body).toEqual([
    { version: '18', default: true, pgvector: true },
    { version: '17', default: false, pgvector: true },
    { version: '16', default: false, pgvector: true },
  ])
})
