/** Texts for models: rows can be parsed from a table, and a result leaves enough tokens for its messages. */
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { countTokens } from 'gpt-tokenizer'
import { describe, expect, test } from 'vitest'
import { TextRows } from '../../postgres/text-rows.ts'
import { expectedTokens } from '../../tokens/expected.ts'
import { planFindings } from './plan.ts'
import { resultText } from './result.ts'
import { tableText } from './table.ts'

const pageOf = (rows: readonly (readonly (string | null)[])[]) => ({ length: rows.length, decoded: () => rows })
const hash = (value: number) => createHash('md5').update(String(value)).digest('hex')
const people = ['James Smith', 'Mary Johnson', 'Linda Okafor', 'Wei Nguyen', 'Priya Petrov', 'David Rossi']
const sentence = 'Customers who returned an order within thirty days have got their money back by now'.split(' ')
const german =
  'Die Kundin hat ihre Bestellung zurückgeschickt und möchte wissen, wann die Überweisung für größere Schäden eintrifft'.split(
    ' ',
  )
const french =
  'Le client a renvoyé sa commande dans les trente jours et souhaite savoir quand la somme sera versée'.split(' ')
const pathWords = 'products category summer shoes search articles news images profile contact berlin'.split(' ')
const pathWord = (n: number, at: number) => pathWords[(n * 7 + at * 5) % pathWords.length]
const usualRows: Record<string, (n: number) => string[]> = {
  'numbers and names': n => [`${n}`, `n${n}`],
  'hashes and times': n => [`${n}`, hash(n), `2026-11-23 18:00:${10 + (n % 50)}.${100_000 + n * 7}+00`],
  uuids: n => [hash(n).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')],
  prices: n => [
    `${n}`,
    `product ${n}`,
    `${(n * 13.37).toFixed(2)}`,
    '2026-11-25',
    ['pending', 'shipped', 'cancelled'][n % 3] ?? '',
  ],
  people: n => {
    const name = people[n % people.length] ?? ''
    return [`${n}`, name, `${name.toLowerCase().replace(' ', '.')}@mail.com`, 'Berlin', '\\N', 't']
  },
  json: n => [JSON.stringify({ id: n, tags: ['new', 'sale'], total: n * 1.37, ok: true, nested: { a: null } })],
  text: n => [`${n}`, [...sentence.slice(n % 9), ...sentence.slice(0, n % 9)].join(' ')],
  addresses: n => [
    `${n}`,
    `https://www.example.com/${pathWord(n, 1)}/${pathWord(n, 2)}/${n * 37}?page=${n % 9}&sort=${pathWord(n, 3)}`,
  ],
  'addresses with hashes': n => [
    `https://api.example.com/v1/${pathWord(n, 1)}/${hash(n).slice(0, 8)}?utm_source=${pathWord(n, 2)}&limit=${n}`,
  ],
  German: n => [`${n}`, [...german.slice(n % 9), ...german.slice(0, n % 9)].join(' ')],
  French: n => [`${n}`, [...french.slice(n % 9), ...french.slice(0, n % 9)].join(' ')],
  statements: n => [
    `SELECT o.id, c.name, o.total FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.placed_at >= '2026-0${1 + (n % 9)}-01' LIMIT ${n}`,
  ],
  csv: n => [
    `${n},"Smith, James",james.smith@mail.com,2026-11-${10 + (n % 19)},${(n * 13.37).toFixed(2)},Berlin,true,,`,
  ],
  base64: n => [Buffer.from(hash(n), 'hex').toString('base64')],
  'runs of one character': n => ['x'.repeat(80), '-'.repeat(40), 'q'.repeat(20), '='.repeat(70), `${n}`],
  floats: n => [`${Math.sin(n)}`, `${Math.cos(n) * 1000}`],
}

describe.each(Object.entries(usualRows))('rows of %s', (_, row) => {
  const rows = Array.from({ length: 1_000 }, (_, n) => row(n + 1))
  const complete = rows.map(cells => cells.join('\t')).join('\n')

  test('are estimated within a tenth', () => {
    const ratio = expectedTokens(complete) / countTokens(complete)
    expect(ratio).toBeGreaterThan(0.9)
    expect(ratio).toBeLessThan(1.1)
  })

  test('fit into the default limit by the thousand, and fill at least four fifths of a smaller page', () => {
    expect(tableText(['a', 'b', 'c', 'd', 'e', 'f'].slice(0, rows[0]?.length), rows, 49_000).rows).toBe(1_000)
    const tokens = countTokens(tableText(['a', 'b', 'c', 'd', 'e', 'f'].slice(0, rows[0]?.length), rows, 3_000).text)
    expect(tokens).toBeGreaterThan(2_400)
    expect(tokens).toBeLessThanOrEqual(3_000)
  })
})

test('a page that ends before the row limit names the token limit and how to continue', () => {
  const rows = Array.from({ length: 1_000 }, (_, n) => [String(n), hash(n)])
  const page = {
    database: 'main',
    columns: ['n', 'v'],
    rows: pageOf(rows),
    offset: 0,
    hasMore: false,
    isTruncated: false,
  }
  const text = resultText({ ...page, cursorAt: at => `cursor-${at}` }, 4_000)
  const [, shown] = /Only (\d+) of 1000 rows fit into the limit of 4000 tokens for one result/.exec(text) ?? []
  expect(Number(shown)).toBeGreaterThan(100)
  expect(text).toContain(`Next page: the same query with cursor="cursor-${shown}".`)
  expect(resultText({ ...page, cursorAt: undefined }, 4_000)).not.toContain('cursor')
})

const unescaped: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', '\\': '\\' }
const readBack = (cell: string) =>
  cell === '\\N' ? null : cell.replace(/\\(.)/gs, (_, character: string) => unescaped[character] ?? '?')

test('rows of any content can be parsed from the table', () => {
  const cell = fc.oneof(
    fc.constant(null),
    fc.constantFrom('', '\\N', 'NULL', '\t', '\\', '\r\n'),
    fc.string({ unit: 'binary', maxLength: 100 }),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell), { maxLength: 20 }), rows => {
      const { text, rows: count, shortened } = tableText(['a', 'b'], rows, 1_000_000)
      expect(
        text
          .split('\n')
          .slice(1)
          .map(line => line.split('\t').map(readBack)),
      ).toEqual(rows)
      expect([count, shortened]).toEqual([rows.length, []])
    }),
  )
})

/** Rows as Postgres sends them, with one buffer for each row. */
function sentRows(rows: readonly (readonly (string | null)[])[]): TextRows {
  const sent = new TextRows()
  for (const row of rows) {
    const pieces = row.flatMap(cell => {
      const bytes = Buffer.from(cell ?? '')
      const length = Buffer.alloc(4)
      length.writeInt32BE(cell === null ? -1 : bytes.length)
      return [length, bytes]
    })
    const count = Buffer.alloc(2)
    count.writeInt16BE(row.length)
    const message = Buffer.concat([Buffer.from('before'), count, ...pieces])
    sent.add(message, 6, message.length)
  }
  return sent
}

test('only plain rows are written unchanged, and they equal decoded rows', () => {
  const cell = fc.oneof(
    fc.constant(null),
    fc.constantFrom('', '\\N', 'a\tb', '漢字', 'x'.repeat(199), 'x'.repeat(300)),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
    fc.integer().map(String),
  )
  let plain = 0
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1, maxLength: 30 }), fc.nat(40), (rows, from) => {
      const sent = sentRows(rows)
      expect(sent.decoded(from, from + 10)).toEqual(rows.slice(from, from + 10))
      const lines = sent.plainLines(from, from + 10, 200, 20_000)
      if (lines === undefined) return
      plain++
      const table = tableText(['a', 'b', 'c'], rows.slice(from, from + 10), 1_000_000)
      expect(['a\tb\tc', lines].join('\n')).toBe(from < rows.length ? table.text : 'a\tb\tc\n')
    }),
  )
  expect(plain).toBeGreaterThan(0)
  const many = sentRows(Array.from({ length: 9_000 }, () => ['12345678']))
  expect(many.plainLines(0, 9_000, 200, 1_000_000)).toBeUndefined()
  expect(many.plainLines(0, 5_000, 200, 1_000_000)?.split('\n')).toHaveLength(5_000)
})

test('a result of any shape stays within its token limit and shows at least one row', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 20_000 }),
    fc.integer({ min: 1, max: 30_000 }).map(length => '漢'.repeat(length)),
    fc.integer({ min: 1, max: 30_000 }).map(length => 'qZ9/'.repeat(length)),
  )
  const dimensions = fc.tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 30 }))
  fc.assert(
    fc.property(dimensions, text, text, fc.nat(10), ([width, height], value, name, offset) => {
      const columns = Array.from({ length: width }, (_, at) => `${name.slice(0, 63)}${at}`)
      const rows = Array.from({ length: height }, () => columns.map(() => value))
      const result = resultText(
        {
          database: 'main',
          columns,
          rows: pageOf(rows),
          offset,
          hasMore: true,
          isTruncated: false,
          cursorAt: at => `cursor of ${at}`.padEnd(40, 'x'),
        },
        4_000,
      )
      expect(countTokens(result)).toBeLessThanOrEqual(4_000)
      expect(result).toMatch(/use offset=\d+/)
      expect(Number(/use offset=(\d+)/.exec(result)?.[1])).toBeGreaterThan(offset)
    }),
    { numRuns: 40 },
  )
})

test('shows the first columns if not all columns fit', () => {
  const columns = Array.from({ length: 1_600 }, (_, at) => `column_${at}_of_a_wide_table`)
  const rows = [columns.map(() => '漢字漢字漢字漢字')]
  const result = resultText(
    {
      database: 'main',
      columns,
      rows: pageOf(rows),
      offset: 0,
      hasMore: false,
      isTruncated: false,
      cursorAt: undefined,
    },
    4_000,
  )
  expect(countTokens(result)).toBeLessThanOrEqual(4_000)
  expect(result).toMatch(/Only the first \d+ of 1600 columns fit/)
  expect(result).toContain('Results (1 row):')
})

test('a plan in either form gives the same findings', () => {
  const text = `Hash Join  (cost=1.0..2.0 rows=10 width=4) (actual time=0.1..9.9 rows=50000 loops=1)
  ->  Parallel Seq Scan on big b  (cost=0.00..1.0 rows=20000 width=4) (actual time=0.0..1.0 rows=50.00 loops=3)
        Filter: (x = 1)
        Rows Removed by Filter: 30000
  ->  Hash  (cost=1.0..1.0 rows=5 width=4) (actual time=0.1..0.1 rows=5 loops=1)
        Buckets: 1024  Batches: 4  Memory Usage: 9kB
Execution Time: 2500.1 ms`
  const findings = planFindings(text, 'text')
  expect(findings).toEqual([
    'It took 2.5 s.',
    expect.stringContaining('Hash Join was planned for 10 rows and had 50000'),
    expect.stringContaining('Parallel Seq Scan on big reads 90150 rows to keep 150: an index'),
    expect.stringContaining('planned for 20000 rows and had 150'),
    expect.stringContaining('Hash needed 4 batches'),
  ])
  expect(
    planFindings('[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "big", "Plan Rows": 20000}}]', 'json'),
  ).toEqual(['Seq Scan on big reads 20000 rows.'])
})

test('parses a plan quickly, whatever its literals contain', () => {
  const figures = ' (cost=0.00..1.00 rows=1 width=4)'
  for (const literal of [
    ' '.repeat(1_000_000),
    '\n'.repeat(100_000) + ' '.repeat(1_000_000),
    ` on${' on'.repeat(300_000)} \u2028${figures}`,
    ' (cost='.repeat(200_000),
    ` (cost=${'.'.repeat(1_000_000)}`,
    ` (cost=${'1'.repeat(1_000_000)}`,
    ` (cost=0.00..1.00 rows=${'1'.repeat(1_000_000)}`,
  ]) {
    const from = performance.now()
    planFindings(`Seq Scan on t${figures}\n  Filter: (n <> '${literal}')`, 'text')
    expect(performance.now() - from).toBeLessThan(1_000)
  }
})
