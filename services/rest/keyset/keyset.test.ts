/** Pages by keys on a real Postgres: put together they are the whole, whatever it is ordered by, and also while rows come and go. */
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

/** Few values, so that many rows are the same by some of them. */
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
  await service.ask('/rows', { method: 'DELETE' })
  const made = await service.ask('/rows', { method: 'POST', headers: json, body: JSON.stringify(list) })
  if (made.status !== 201) throw new Error(made.text)
}

const nextOf = (link: unknown): string | undefined => /^<(\?[^>]*)>; rel="next"$/.exec(String(link ?? ''))?.[1]

/** Follows the links to their end; between pages, something else may happen. */
async function pages(path: string, between: () => Promise<unknown> = async () => {}): Promise<Row[][]> {
  const list: Row[][] = []
  const [where = ''] = path.split('?')
  for (let next: string | undefined = path; next !== undefined; ) {
    const answer = await service.ask(next)
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

test('pages put together are the whole', async () => {
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
        const whole = await service.ask(`/${relation}?${filter}${orderQuery([...terms, ...rest])}`)
        const found = await pages(`/${relation}?limit=${limit}${filter}${orderQuery(terms)}&after=`)
        expect(found.flat()).toEqual(JSON.parse(whole.text))
        expect(found.slice(0, -1).every(page => page.length === limit)).toBe(true)
      },
    ),
    { numRuns: 60 },
  )
}, 60_000)

test('rows that stay come once each, and in order, while others come and go', async () => {
  await fc.assert(
    fc.asyncProperty(rows, rows, order, fc.integer({ min: 1, max: 4 }), async (staying, passing, terms, limit) => {
      const stays = new Set(staying.map(({ one, two }) => `${one} ${two}`))
      const others = passing.filter(({ one, two }) => !stays.has(`${one} ${two}`))
      await fill(staying)
      const whole = await service.ask(`/rows?select=one,two${orderQuery([...terms, 'one', 'two'])}`)
      const waiting = [...others]
      const found = await pages(`/rows?select=one,two&limit=${limit}${orderQuery(terms)}&after=`, async () => {
        const come = waiting.splice(0, 2)
        for (const one of come) await service.ask('/rows', { method: 'POST', headers: json, body: JSON.stringify(one) })
        const [gone] = others
        if (gone === undefined || waiting.length % 2 === 1) return
        const filter = `one=eq.${gone.one}&two=eq.${encodeURIComponent(gone.two)}`
        await service.ask(`/rows?${filter}`, { method: 'DELETE' })
      })
      const kept = found.flat().filter(({ one, two }) => stays.has(`${one} ${two}`))
      expect(kept).toEqual(JSON.parse(whole.text))
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

  test('shows what was selected, and names the next', async () => {
    const answer = await service.ask('/rows?select=n:one,authors(name)&order=a.desc&limit=2&after=')
    expect(JSON.parse(answer.text)).toEqual([
      { n: 1, authors: { name: 'Grace' } },
      { n: 3, authors: { name: 'Grace' } },
    ])
    expect(nextOf(answer.headers.link)).toMatch(
      /^\?limit=2&order=a.desc&select=n%3Aone%2Cauthors%28name%29&after=[\w-]+$/,
    )
    const next = await service.ask(`/rows${nextOf(answer.headers.link)}`)
    expect(JSON.parse(next.text)[0]).toEqual({ n: 5, authors: { name: 'Grace' } })
    expect(next.headers['content-location']).toBe(`/rows${nextOf(answer.headers.link)}`)
  })

  test('is counted as all rows, and does not say which of them it has', async () => {
    const headers = { prefer: 'count=exact' }
    const first = await service.ask('/rows?limit=2&after=', { headers })
    const second = await service.ask(`/rows${nextOf(first.headers.link)}`, { headers })
    expect([first.status, first.headers['content-range']]).toEqual([206, '0-1/5'])
    expect([second.status, second.headers['content-range']]).toEqual([206, '*/5'])
  })

  test('has a link also where it is so large that it is sent as it comes', async () => {
    await postgres.run(
      `INSERT INTO api.rows (one, two, g) SELECT n, repeat('x', 100), 0 FROM generate_series(10, 3000) n`,
    )
    const first = await service.ask('/rows?limit=2000&after=')
    expect(JSON.parse(first.text)).toHaveLength(2_000)
    const second = await service.ask(`/rows${nextOf(first.headers.link)}`)
    expect(JSON.parse(second.text)).toHaveLength(5 + 2_991 - 2_000)
    expect(second.headers.link).toBeUndefined()
  })

  test('may have another size than the one before', async () => {
    const first = await service.ask('/rows?limit=2&after=')
    const query = nextOf(first.headers.link)?.replace('limit=2', 'limit=10')
    const second = await service.ask(`/rows${query}`)
    expect(JSON.parse(second.text)).toHaveLength(3)
    expect(second.headers.link).toBeUndefined()
  })

  test.each([
    ['text/csv', '?select=one&limit=2', 'one\n1\n2'],
    ['application/x-ndjson', '?select=one&limit=2', '{"one":1}\n{"one":2}\n'],
    ['application/vnd.pgrst.object+json', '?select=one&limit=1', '{"one":1}'],
  ])('comes as %s, too', async (accept, query, text) => {
    const answer = await service.ask(`/rows${query}&after=`, { headers: { accept } })
    expect(answer.text).toBe(text)
    expect(nextOf(answer.headers.link)).toBeDefined()
  })

  test('has a link without its rows', async () => {
    const [head, get] = await Promise.all(
      ['HEAD', 'GET'].map(method => service.ask('/rows?limit=2&after=', { method })),
    )
    expect([head?.text, head?.headers.link]).toEqual(['', get?.headers.link])
  })

  test('has no next one where nobody has said how long it is, or it is empty', async () => {
    expect((await service.ask('/rows?after=')).headers.link).toBeUndefined()
    expect(await service.ask('/rows?limit=0&after=')).toMatchObject({ status: 200, text: '[]' })
  })

  test('is found by an index', async () => {
    await postgres.run(
      `INSERT INTO api.rows (one, two, g) SELECT n, 'x', n FROM generate_series(10, 5000) n; ANALYZE api.rows`,
    )
    const first = await service.ask('/rows?order=g&limit=10&after=')
    const accept = 'application/vnd.pgrst.plan+text'
    const plan = await service.ask(`/rows${nextOf(first.headers.link)}`, { headers: { accept } })
    expect(plan.text).toMatch(/Index Cond: \(ROW\(g, one, two\) > ROW\(/)
    const mixed = await service.ask('/rows?order=g,one.desc&limit=10&after=')
    const other = await service.ask(`/rows${nextOf(mixed.headers.link)}`, { headers: { accept } })
    expect(other.text).toMatch(/Index Cond: \(g >= /)
  })
})

describe('what cannot be paged is refused', () => {
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
    ['/rows?select=count()&after=', 'groups have no key'],
    ['/rows?offset=1&after=', 'a cursor takes the place of an offset'],
    ['/rows?select=one,one&after=', "'one' is selected twice"],
    ['/repeated?limit=1&after=', "the primary key does not tell the rows of 'repeated' apart"],
  ])('%s', async (path, details) => {
    const answer = await service.ask(path)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'RSTB10', details })
  })

  test('a cursor of another request, and what is none', async () => {
    const query = nextOf((await service.ask('/rows?limit=1&order=a&after=')).headers.link) ?? ''
    const code = async (path: string) => JSON.parse((await service.ask(path)).text).code
    expect(await code(`/rows${query.replace('order=a', 'order=b')}`)).toBe('RSTB12')
    expect(await code(`/rows${query}&g=eq.0`)).toBe('RSTB12')
    expect(await code(`/shown${query}`)).toBe('RSTB12')
    for (const cursor of ['x', '%00', 'bnVsbA', 'WzEsMl0', 'a'.repeat(5_000)]) {
      expect(await code(`/rows?limit=1&after=${cursor}`)).toBe('RSTB11')
    }
  })

  test('a key that no link has room for', async () => {
    await postgres.run(`UPDATE api.rows SET b = repeat('x', 5000)`)
    expect(JSON.parse((await service.ask('/rows?order=b&limit=1&after=')).text).code).toBe('RSTB13')
  })
})

test('a cursor is read as it was written, by a request of its shape alone', () => {
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

test('nothing of it is there where no parameter is named, and for functions', async () => {
  const other = await startService(postgres.uri('postgres'), keys)
  expect((await other.ask('/rows?limit=1&after=')).status).toBe(400)
  expect((await service.ask('/rows?limit=1')).headers.link).toBeUndefined()
  expect((await service.ask('/rpc/some_rows?after=here')).text).toBe('"here"')
  await other.stop()
})
