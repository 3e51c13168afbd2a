/** Paging: properties of plain lists, and through the API. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { annotations, apiVersion, labels, tenantNamespace } from '../crds/index.ts'
import { createIds } from '../values/id.ts'
import { compareByCreation, createdWithin, filtered, pageHeaders, pageOf } from './pages.ts'
import { createdTime } from './render/created-at.ts'
import { startClient, until } from './testing/client.ts'

const object = (second: number, id: string) => ({
  metadata: {
    creationTimestamp: new Date(second * 1000).toISOString().replace('.000', ''),
    labels: { [labels.id]: id },
  },
})

describe('pages of a list', () => {
  const lists = fc.array(fc.integer(), { maxLength: 50 })

  test('together equal the list, in either order and with any page length', () => {
    fc.assert(
      fc.property(lists, fc.integer({ min: 1, max: 20 }), fc.boolean(), (list, limit, descending) => {
        const together: number[] = []
        for (let offset = 0; offset < list.length; offset += limit) {
          const { items, total } = pageOf(list, { limit, offset, descending })
          expect(total).toBe(list.length)
          expect(items.length).toBeLessThanOrEqual(limit)
          together.push(...items)
        }
        expect(together).toEqual(descending ? list.toReversed() : list)
      }),
    )
  })

  test('beyond the end are empty', () => {
    fc.assert(
      fc.property(lists, fc.nat(10), fc.boolean(), (list, beyond, descending) => {
        expect(pageOf(list, { limit: 5, offset: list.length + beyond, descending }).items).toEqual([])
      }),
    )
  })

  test('Link is present exactly while there are more pages, and leads through all pages', () => {
    fc.assert(
      fc.property(fc.nat(40), fc.integer({ min: 1, max: 9 }), (total, limit) => {
        let offset = 0
        let pages = 0
        for (;;) {
          pages++
          const headers = pageHeaders(`/x?region=a%26b&limit=${limit}`, { limit, offset, descending: false }, total)
          expect(headers['X-Total-Count']).toBe(String(total))
          const next = /^<(\/x\?[^>]*)>; rel="next"$/.exec(headers.Link ?? '')?.[1]
          if (next === undefined) break
          const query = new URLSearchParams(next.split('?')[1])
          expect(query.get('region')).toBe('a&b')
          offset = Number(query.get('offset'))
        }
        expect(pages).toBe(Math.max(1, Math.ceil(total / limit)))
      }),
    )
  })

  test('creation is a total order', () => {
    const objects = fc.array(
      fc.tuple(fc.nat(3), fc.uuid()).map(([second, id]) => object(second, id)),
      { maxLength: 20 },
    )
    fc.assert(
      fc.property(objects, list => {
        const sorted = list.toSorted(compareByCreation)
        expect(list.toReversed().sort(compareByCreation)).toEqual(sorted)
      }),
    )
  })

  const made = (creationTimestamp: string, id: string) => ({
    metadata: { creationTimestamp, labels: { [labels.id]: id } },
  })
  const idsOf = (list: ReturnType<typeof made>[]) => list.map(({ metadata }) => metadata.labels[labels.id])
  const noon = Date.parse('2026-01-31T12:00:00.000Z')

  test('orders objects of one second by millisecond, and then by order of creation', () => {
    let clock = noon
    const next = createIds(() => clock)
    const ids = Array.from({ length: 300 }, (_, index) => {
      clock = noon + Math.floor(index / 10)
      return next()
    })
    const list = ids.map(id => made('2026-01-31T12:00:00Z', id))
    const shuffled = list.toSorted(() => Math.random() - 0.5)
    expect(idsOf(shuffled.sort(compareByCreation))).toEqual(ids)
  })

  test("the cluster's second has priority over the id's time", () => {
    const at = (ms: number) => createIds(() => ms)()
    const putBack = made('2026-01-31T12:00:01Z', at(noon - 86_400_000))
    const random = made('2026-01-31T12:00:01Z', 'd0e6be7d-f4c4-4f9e-9094-2adfd944e71b')
    const plain = made('2026-01-31T12:00:01Z', at(noon + 1_500))
    const clockAhead = made('2026-01-31T12:00:01Z', at(noon + 60_000))
    const derived = {
      metadata: { ...random.metadata, annotations: { [annotations.createdAt]: '2026-01-31T12:00:01.700Z' } },
    }
    expect(createdTime(derived)).toBe('2026-01-31T12:00:01.700Z')
    const later = made('2026-01-31T12:00:02Z', at(noon + 1_990))
    const inOrder = [putBack, random, plain, clockAhead, later]
    for (const list of [inOrder.toReversed(), inOrder]) expect(list.toSorted(compareByCreation)).toEqual(inOrder)
    expect(inOrder.map(object => createdTime(object).slice(17))).toEqual([
      '01.000Z',
      '01.000Z',
      '01.500Z',
      '01.999Z',
      '02.000Z',
    ])
    const since = (created_after: string) => filtered(inOrder, [createdWithin({ created_after })])
    expect(since('2026-01-31T12:00:01.499Z')).toEqual([plain, clockAhead, later])
    expect(since('2026-01-31T12:00:01.500Z')).toEqual([clockAhead, later])
  })

  test('a time range excludes its ends', () => {
    const list = [1, 2, 3, 4].map(second => object(second, String(second)))
    const ids = (range: { created_after?: string; created_before?: string }) =>
      filtered(list, [createdWithin(range)]).map(({ metadata }) => metadata.labels[labels.id])
    expect(ids({})).toEqual(['1', '2', '3', '4'])
    expect(ids({ created_after: '1970-01-01T00:00:02Z' })).toEqual(['3', '4'])
    expect(ids({ created_before: '1970-01-01T01:00:03+01:00' })).toEqual(['1', '2'])
    expect(ids({ created_after: '1970-01-01T00:00:01.5Z', created_before: '1970-01-01T00:00:02.5Z' })).toEqual(['2'])
  })
})

test('databases page by creation, by region and by time, with the next page in Link', async () => {
  const client = await startClient()
  try {
    const { body: first } = await client.create('first')
    const namespace = tenantNamespace('acme')
    const model = await client.cluster.get('ManagedDatabase', { namespace, name: 'first' })
    if (model === undefined) throw new Error('no model')
    for (let n = 0; n < 24; n++) {
      await client.cluster.create('ManagedDatabase', {
        apiVersion,
        kind: 'ManagedDatabase',
        metadata: { name: `d${n}`, namespace, labels: { [labels.id]: crypto.randomUUID() } },
        spec: { ...model.spec, region: n % 3 === 0 ? 'elsewhere' : 'local' },
      })
    }
    // A user applied this object, and the operator has not set its id yet. Clients cannot request it, so the list omits
    // it.
    const unlabelled = { name: 'unlabelled', namespace }
    await client.cluster.create('ManagedDatabase', {
      apiVersion,
      kind: 'ManagedDatabase',
      metadata: unlabelled,
      spec: model.spec,
    })
    await until(async () => (await client.call('GET', '/databases')).headers['x-total-count'] === '25')

    const seen: string[] = []
    let path: string | undefined = './managed/v1/databases?limit=7&descending=true'
    while (path !== undefined) {
      const { body, headers } = await client.call('GET', path)
      seen.push(...body.map((database: { id: string }) => database.id))
      const next: string | undefined = /^<(.*)>/.exec(String(headers.link ?? ''))?.[1]
      path = next && `.${next}`
    }
    const { body: all } = await client.call('GET', '/databases?limit=1000')
    expect(seen.toReversed()).toEqual(all.map((database: { id: string }) => database.id))
    expect(new Set(seen).size).toBe(25)
    expect(all).toContainEqual(expect.objectContaining({ id: first.id }))

    const elsewhere = await client.call('GET', '/databases?region=elsewhere&limit=3&offset=6')
    expect(elsewhere.headers['x-total-count']).toBe('8')
    expect(elsewhere.body).toHaveLength(2)
    expect(elsewhere.headers).not.toHaveProperty('link')
    expect((await client.call('GET', '/databases?created_before=2020-01-01T00:00:00Z')).body).toEqual([])
    // Without encoding, a `+` in a query is a space.
    for (const offset of ['+01:00', '%2B01:00'])
      expect((await client.call('GET', `/databases?created_after=2020-01-01T00:00:00${offset}`)).status).toBe(200)
    expect((await client.call('GET', '/databases?created_after=2020-01-01+00:00:00Z')).status).toBe(400)
    expect((await client.call('GET', '/databases?created_before=2020-01-01t00:00:00z')).body).toEqual([])
    expect((await client.call('GET', '/databases?created_after=2020-01-01T00:00:00Z')).headers['x-total-count']).toBe(
      '25',
    )
    expect((await client.call('GET', '/databases?offset=1000')).body).toEqual([])
  } finally {
    await client.close()
  }
})

test('lists databases and tasks of one second newest first, with milliseconds', async () => {
  const client = await startClient()
  try {
    const names = Array.from({ length: 12 }, (_, index) => `quick${index}`)
    for (const name of names) await client.create(name)
    await until(async () => (await client.call('GET', '/databases')).headers['x-total-count'] === '12')
    const { body } = await client.call('GET', '/databases?descending=true&limit=100')
    expect(body.map(({ name }: { name: string }) => name)).toEqual(names.toReversed())
    const times = body.map(({ created_at }: { created_at: string }) => created_at)
    expect(times.toSorted().toReversed()).toEqual(times)
    expect(new Set(times).size).toBeGreaterThan(1)
    for (const { created_at, updated_at } of body) expect(updated_at >= created_at).toBe(true)
    await until(async () => (await client.call('GET', '/tasks')).headers['x-total-count'] === '12')
    const tasks = await client.call('GET', '/tasks')
    const subjects = tasks.body.map(({ subject_id }: { subject_id: string }) => subject_id)
    expect(subjects).toEqual(body.map(({ id }: { id: string }) => id))
  } finally {
    await client.close()
  }
})
