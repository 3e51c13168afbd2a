/**
 * Keyset pagination on a real Postgres. All pages together are the full result, for any order, and also while other
 * clients insert and delete rows.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { startService, type TestService } from '../testing/service.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'

const schema = `
  CREATE ROLE anon; CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TYPE api.mood AS ENUM ('sad', 'glad');
  CREATE COLLATION api.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  CREATE TABLE api.authors (id int PRIMARY KEY, name text NOT NULL);
  CREATE TABLE api.rows (one int, two text COLLATE "C", a int, b text COLLATE api.loose, c numeric(6,2), d timestamptz, e api.mood, f float8, g int NOT NULL, h jsonb,
    author int REFERENCES api.authors, PRIMARY KEY (one, two));
  CREATE INDEX ON api.rows (g, one, two);
  CREATE TABLE api.keyless (id int);
  CREATE VIEW api.shown AS SELECT rows.* FROM api.rows;
  CREATE VIEW api.repeated AS SELECT authors.id, authors.name FROM api.authors CROSS JOIN generate_series(1, 3);
  CREATE FUNCTION api.some_rows(after text DEFAULT 'none') RETURNS text LANGUAGE sql STABLE AS 'SELECT after';
  GRANT ALL ON ALL TABLES IN SCHEMA api TO anon;
  INSERT INTO api.authors VALUES (1, 'Ada'), (2, 'Grace');`

let postgres: TestPostgres
let service: TestService
const keys = { 'db-schemas': 'api', 'db-anon-role': 'anon', 'db-plan-enabled': true, 'db-aggregates-enabled': true }

beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  service = await startService(postgres.uri('postgres'), {
    ...keys,
    'keyset-parameter': 'after',
    'ndjson-enabled': true,
  })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

type Row = Record<string, unknown>

/** Each column has few distinct values, so that many rows have equal values. */
const column = <T>(...values: T[]) => fc.constantFrom(null, ...values)
const row = fc.record({
  one: fc.integer({ min: -2, max: 3 }),
  two: fc.constantFrom('', 'a', 'B', 'é', '"', '\\', 'NULL', "it's,{}"),
  a: column(-1, 0, 7),
  b: column('', 'x', 'X', 'null', 'y"\n'),
  c: column('0.10', '1.00', '-3.50'),
  d: column('2020-01-01T00:00:00.000001Z', '1999-12-31T23:00:00+05:30', 'infinity'),
  e: column('sad', 'glad'),
  f: column('NaN', '-0', '0.1', '1e300'),
  g: fc.integer({ min: 0, max: 2 }),
  h: column({ n: 1, s: 'b' }, { n: 10 }, { n: null, s: 'a' }, [1]),
})
const rows = fc.uniqueArray(row, { maxLength: 25, selector: ({ one, two }) => JSON.stringify([one, two]) })
const term = fc
  .tuple(
    fc.constantFrom('one', 'two', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'h->n', 'h->>s'),
    fc.constantFrom('', '.asc', '.desc'),
    fc.constantFrom('', '.nullsfirst', '.nullslast'),
  )
  .map(parts => parts.join(''))
const order = fc.uniqueArray(term, { maxLength: 4, selector: text => text.split('.')[0] })

const json = { 'content-type': 'application/json' }

async function fill(list: readonly Row[]): Promise<void> {
  await service.send('/rows', { method: 'DELETE' })
  const made = await service.send('/rows', { method: 'POST', headers: json, body: JSON.stringify(list) })
  if (made.status !== 201) throw new Error(made.text)
}

const nextOf = (link: unknown): string | undefined => /^<(\?[^>]*)>; rel="next"$/.exec(String(link ?? ''))?.[1]

/** Follows the links to the last page. Between pages, `between` may change rows. */
async function pages(path: string, between: () => Promise<unknown> = async () => {}): Promise<Row[][]> {
  const list: Row[][] = []
  const [where = ''] = path.split('?')
  for (let next: string | undefined = path; next !== undefined; ) {
    const answer = await service.send(next)
    if (answer.status !== 200) throw new Error(answer.text)
    list.push(JSON.parse(answer.text))
    const query = nextOf(answer.headers.link)
    next = query === undefined ? undefined : `${where}${query}`
    if (next !== undefined) await between()
  }
  return list
}

const orderQuery = (terms: readonly string[]) =>
  terms.length === 0 ? '' : `&order=${terms.map(encodeURIComponent).join(',')}`

test('all pages together are the full result', async () => {
  await fc.assert(
    fc.asyncProperty(
      rows,
      order,
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom('', '&g=lt.2'),
      fc.constantFrom('rows', 'shown'),
      async (list, terms, limit, filter, relation) => {
        await fill(list)
        const rest = ['one', 'two'].filter(name => !terms.some(text => text.split('.')[0] === name))
        const complete = await service.send(`/${relation}?${filter}${orderQuery([...terms, ...rest])}`)
        const found = await pages(`/${relation}?limit=${limit}${filter}${orderQuery(terms)}&after=`)
        expect(found.flat()).toEqual(JSON.parse(complete.text))
        expect(found.slice(0, -1).every(page => page.length === limit)).toBe(true)
      },
    ),
    { numRuns: 60 },
  )
}, 60_000)

test('rows that exist throughout appear once each, in order, while other rows are inserted and deleted', async () => {
  await fc.assert(
    fc.asyncProperty(rows, rows, order, fc.integer({ min: 1, max: 4 }), async (staying, passing, terms, limit) => {
      const stays = new Set(staying.map(({ one, two }) => `${one} ${two}`))
      const others = passing.filter(({ one, two }) => !stays.has(`${one} ${two}`))
      await fill(staying)
      const complete = await service.send(`/rows?select=one,two${orderQuery([...terms, 'one', 'two'])}`)
      const waiting = [...others]
      const found = await pages(`/rows?select=one,two&limit=${limit}${orderQuery(terms)}&after=`, async () => {
        const come = waiting.splice(0, 2)
        for (const one of come)
          await service.send('/rows', { method: 'POST', headers: json, body: JSON.stringify(one) })
        const [deleted] = others
        if (deleted === undefined || waiting.length % 2 === 1) return
        const filter = `one=eq.${deleted.one}&two=eq.${encodeURIComponent(deleted.two)}`
        await service.send(`/rows?${filter}`, { method: 'DELETE' })
      })
      const remaining = found.flat().filter(({ one, two }) => stays.has(`${one} ${two}`))
      expect(remaining).toEqual(JSON.parse(complete.text))
    }),
    { numRuns: 25 },
  )
}, 60_000)

describe('a page', () => {
  beforeEach(async () => {
    await fill(
      [1, 2, 3, 4, 5].map(one => ({
        one,
        two: 'x',
        a: one % 2,
        g: 0,
        h: null,
        c: null,
        b: null,
        d: null,
        e: null,
        f: null,
      })),
    )
    await postgres.run('UPDATE api.rows SET author = one % 2 + 1')
  })

  test('contains the selected columns, and links to the next page', async () => {
    const answer = await service.send('/rows?select=n:one,authors(name)&order=a.desc&limit=2&after=')
    expect(JSON.parse(answer.text)).toEqual([
      { n: 1, authors: { name: 'Grace' } },
      { n: 3, authors: { name: 'Grace' } },
    ])
    expect(nextOf(answer.headers.link)).toMatch(
      /^\?limit=2&order=a.desc&select=n%3Aone%2Cauthors%28name%29&after=[\w-]+$/,
    )
    const next = await service.send(`/rows${nextOf(answer.headers.link)}`)
    expect(JSON.parse(next.text)[0]).toEqual({ n: 5, authors: { name: 'Grace' } })
    expect(next.headers['content-location']).toBe(`/rows${nextOf(answer.headers.link)}`)
  })

  test('has the total count, without its own offset', async () => {
    const headers = { prefer: 'count=exact' }
    const first = await service.send('/rows?limit=2&after=', { headers })
    const second = await service.send(`/rows${nextOf(first.headers.link)}`, { headers })
    expect([first.status, first.headers['content-range']]).toEqual([206, '0-1/5'])
    expect([second.status, second.headers['content-range']]).toEqual([206, '*/5'])
  })

  test('has a link also if it is streamed because it is large', async () => {
    await postgres.run(
      `INSERT INTO api.rows (one, two, g) SELECT n, repeat('x', 100), 0 FROM generate_series(10, 3000) n`,
    )
    const first = await service.send('/rows?limit=2000&after=')
    expect(JSON.parse(first.text)).toHaveLength(2_000)
    const second = await service.send(`/rows${nextOf(first.headers.link)}`)
    expect(JSON.parse(second.text)).toHaveLength(5 + 2_991 - 2_000)
    expect(second.headers.link).toBeUndefined()
  })

  test('can have another size than the previous page', async () => {
    const first = await service.send('/rows?limit=2&after=')
    const query = nextOf(first.headers.link)?.replace('limit=2', 'limit=10')
    const second = await service.send(`/rows${query}`)
    expect(JSON.parse(second.text)).toHaveLength(3)
    expect(second.headers.link).toBeUndefined()
  })

  test.each([
    ['text/csv', '?select=one&limit=2', 'one\n1\n2'],
    ['application/x-ndjson', '?select=one&limit=2', '{"one":1}\n{"one":2}\n'],
    ['application/vnd.pgrst.object+json', '?select=one&limit=1', '{"one":1}'],
  ])('is also available as %s', async (accept, query, text) => {
    const answer = await service.send(`/rows${query}&after=`, { headers: { accept } })
    expect(answer.text).toBe(text)
    expect(nextOf(answer.headers.link)).toBeDefined()
  })

  test('has a link also without rows in the response', async () => {
    const [head, get] = await Promise.all(
      ['HEAD', 'GET'].map(method => service.send('/rows?limit=2&after=', { method })),
    )
    expect([head?.text, head?.headers.link]).toEqual(['', get?.headers.link])
  })

  test('has no next page if it has no limit or is empty', async () => {
    expect((await service.send('/rows?after=')).headers.link).toBeUndefined()
    expect(await service.send('/rows?limit=0&after=')).toMatchObject({ status: 200, text: '[]' })
  })

  test('uses an index', async () => {
    await postgres.run(
      `INSERT INTO api.rows (one, two, g) SELECT n, 'x', n FROM generate_series(10, 5000) n; ANALYZE api.rows`,
    )
    const first = await service.send('/rows?order=g&limit=10&after=')
    const accept = 'application/vnd.pgrst.plan+text'
    const plan = await service.send(`/rows${nextOf(first.headers.link)}`, { headers: { accept } })
    expect(plan.text).toMatch(/Index Cond: \(ROW\(g, one, two\) > ROW\(/)
    const mixed = await service.send('/rows?order=g,one.desc&limit=10&after=')
    const other = await service.send(`/rows${nextOf(mixed.headers.link)}`, { headers: { accept } })
    expect(other.text).toMatch(/Index Cond: \(g >= /)
  })
})

describe('requests that keyset pagination cannot serve are refused', () => {
  beforeEach(async () => {
    await fill(
      [1, 2, 3].map(one => ({ one, two: 'x', g: 0, a: null, b: null, c: null, d: null, e: null, f: null, h: null })),
    )
  })

  test.each([
    ['/keyless?after=', "'keyless' has no primary key"],
    [
      '/rows?order=authors(name)&select=one,authors(name)&after=',
      'rows cannot be ordered by columns of an embedded relation',
    ],
    ['/rows?select=count()&after=', 'grouped rows have no key'],
    ['/rows?offset=1&after=', 'a cursor cannot be combined with an offset'],
    ['/rows?select=one,one&after=', "'one' is selected twice"],
    ['/repeated?limit=1&after=', "the primary key is not unique in 'repeated'"],
  ])('%s', async (path, details) => {
    const answer = await service.send(path)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'RSTB10', details })
  })

  test('a cursor of another request, and an invalid cursor', async () => {
    const query = nextOf((await service.send('/rows?limit=1&order=a&after=')).headers.link) ?? ''
    const code = async (path: string) => JSON.parse((await service.send(path)).text).code
    expect(await code(`/rows${query.replace('order=a', 'order=b')}`)).toBe('RSTB12')
    expect(await code(`/rows${query}&g=eq.0`)).toBe('RSTB12')
    expect(await code(`/shown${query}`)).toBe('RSTB12')
    for (const cursor of ['x', '%00', 'bnVsbA', 'WzEsMl0', 'a'.repeat(5_000)]) {
      expect(await code(`/rows?limit=1&after=${cursor}`)).toBe('RSTB11')
    }
  })

  test('a key that is too long for a link', async () => {
    await postgres.run(`UPDATE api.rows SET b = repeat('x', 5000)`)
    expect(JSON.parse((await service.send('/rows?order=b&limit=1&after=')).text).code).toBe('RSTB13')
  })
})

test('a cursor is decoded unchanged, and only for the same request', () => {
  const shape = fc.record({ schema: fc.string(), relation: fc.string(), canonicalQuery: fc.string() })
  const position = fc.array(fc.option(fc.string({ unit: 'grapheme', maxLength: 20 })), {
    minLength: 1,
    maxLength: 4,
  })
  fc.assert(
    fc.property(shape, shape, position, (one, other, values) => {
      const cursor = encodeCursor(one, values)
      expect(cursor).toMatch(/^[\w-]+$/)
      expect(decodeCursor(one, cursor)).toEqual(values)
      fc.pre(one.schema !== other.schema || one.relation !== other.relation)
      expect(() => decodeCursor(other, cursor)).toThrow()
    }),
    { numRuns: 30 },
  )
})

test('keyset pagination is unavailable without a configured parameter, and for functions', async () => {
  const other = await startService(postgres.uri('postgres'), keys)
  expect((await other.send('/rows?limit=1&after=')).status).toBe(400)
  expect((await service.send('/rows?limit=1')).headers.link).toBeUndefined()
  expect((await service.send('/rpc/some_rows?after=here')).text).toBe('"here"')
  await other.stop()
})
