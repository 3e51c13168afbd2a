/** Guarantees of ranking, for any rows and texts. */
import fc from 'fast-check'
import { encode } from 'gpt-tokenizer'
import { describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../postgres/quote.ts'
import { bm25 } from './bm25.ts'
import { chunks } from './chunk.ts'
import { byMarginalRelevance } from './mmr.ts'
import { nearestRows, passages } from './rank.ts'
import { parseTableName } from './statements.ts'
import { estimateTokens } from './tokens.ts'
import { columnWeights } from './weights.ts'
import { wordsOf } from './words.ts'

const prose = fc
  .array(
    fc.oneof(
      fc.constantFrom('cat', 'harbour.', 'x', '\n\n', 'Überfluß', '数据库查询', '12345'),
      fc.string({ maxLength: 60 }),
    ),
    { maxLength: 60 },
  )
  .map(words => words.join(' '))

describe('chunks', () => {
  test('contain every word, in order, and have about the requested size', () => {
    fc.assert(
      fc.property(prose, fc.integer({ min: 5, max: 60 }), fc.integer({ min: 0, max: 10 }), (text, size, overlap) => {
        const found = chunks(text, size, overlap)
        let reached = 0
        for (const { text: piece, start } of found) {
          expect(text.startsWith(piece, start)).toBe(true)
          expect(text.slice(reached, Math.max(reached, start)).trim()).toBe('')
          reached = start + piece.length
          // A single piece may exceed the size, because it has sixteen characters with one or more tokens each.
          expect(estimateTokens(piece)).toBeLessThanOrEqual(size + 45)
        }
        expect(text.slice(reached).trim()).toBe('')
        expect(found.map(({ index }) => index)).toEqual([...found.keys()])
      }),
    )
  })

  test('end with sentences if possible, and overlap', () => {
    const text = Array.from({ length: 30 }, (_, index) => `Sentence number ${index} is about ships.`).join(' ')
    const found = chunks(text, 40, 10)
    expect(found.length).toBeGreaterThan(3)
    for (const { text: piece } of found) expect(piece).toMatch(/ships\.$/)
    expect(found[1]?.text.split(' ').some(word => found[0]?.text.endsWith(word))).toBe(true)
  })
})

describe('BM25', () => {
  const score = (query: string, ...texts: string[]) => bm25(wordsOf(query), texts.map(wordsOf))

  test('is never below 0, and 0 without a shared word', () => {
    fc.assert(
      fc.property(prose, fc.array(prose, { maxLength: 6 }), (query, texts) => {
        for (const [index, one] of score(query, ...texts).entries()) {
          const shared = wordsOf(texts[index] ?? '').some(word => wordsOf(query).includes(word))
          if (shared) expect(one).toBeGreaterThan(0)
          else expect(one).toBe(0)
        }
      }),
    )
  })

  test('rare words count more, and long texts count less', () => {
    const [common = 0, rare = 0] = score('ship mouse', 'ship sails', 'mouse sails', 'ship rests', 'ship waits')
    expect(rare).toBeGreaterThan(common)
    const [short = 0, long = 0] = score('ship', 'ship sails', 'ship sails far beyond many distant green islands')
    expect(short).toBeGreaterThan(long)
  })

  test('matches plurals, any case, and words of scripts without spaces', () => {
    expect(wordsOf('Ships QUERIES glass ｓｈｉｐ')).toEqual(['ship', 'query', 'glass', 'ship'])
    expect(wordsOf('数据库')).toEqual(['数据', '据库'])
  })
})

describe('marginal relevance', () => {
  const relevances = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })

  test('selects each candidate once; by relevance alone if lambda is 1', () => {
    fc.assert(
      fc.property(relevances, all => {
        const order = [...byMarginalRelevance(all, 1, () => 1)]
        expect(order.toSorted((one, other) => one - other)).toEqual([...all.keys()])
        const taken = order.map(index => all[index] ?? 0)
        expect(taken).toEqual(taken.toSorted((one, other) => other - one))
      }),
    )
  })

  test('prefers different texts over similar ones', () => {
    const twins = (one: number, other: number) => (one + other === 1 ? 1 : 0)
    expect([...byMarginalRelevance([1, 0.9, 0.5], 0.6, twins)]).toEqual([0, 2, 1])
  })
})

test('passages stay within the budget, except the first', () => {
  fc.assert(
    fc.property(
      fc.array(prose, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 100, max: 800 }),
      (texts, maximumTokens) => {
        const rows = nearestRows(
          texts.map((text, id) => ({ key: `${id}`, distances: [id], texts: [{ column: 'body', text }] })),
          [1],
          10,
        )
        const found = passages('cat harbour', rows, { chunkTokens: 60, lambda: 0.6, maximumTokens })
        const tokens = found.slice(1).reduce((sum, { text }) => sum + estimateTokens(text), 0)
        expect(tokens).toBeLessThanOrEqual(maximumTokens)
        if (texts.some(text => text.trim() !== '')) expect(found.length).toBeGreaterThan(0)
      },
    ),
  )
})

test('sorts a row without any usable vector last', () => {
  const row = (key: string, ...distances: (number | undefined)[]) => ({ key, distances, texts: [] })
  const near = nearestRows(
    [
      row('none', undefined, Number.NaN),
      row('far', 2, undefined),
      row('near', undefined, 1),
      row('near', undefined, 1),
    ],
    [0.5, 0.5],
    9,
  )
  expect(near.map(({ key }) => key)).toEqual(['near', 'far', 'none'])
})

test.each([
  ['by their names', [['title_embedding'], ['body_vec']], [0.3, 0.7]],
  [
    'by their comments',
    [
      ['a', 'of the headline'],
      ['b', 'of the whole text'],
    ],
    [0.3, 0.7],
  ],
  [
    'by the length of their texts',
    [
      ['a', undefined, 20, 30],
      ['b', undefined, 900, 2_000],
    ],
    [0.3, 0.7],
  ],
  ['equally if nothing distinguishes them', [['a'], ['b']], [0.5, 0.5]],
] as const)('vector columns are weighted %s', (_, columns, weights) => {
  const weighed = columnWeights(columns.map(([name, comment, ...sampleLengths]) => ({ name, comment, sampleLengths })))
  for (const [index, weight] of weights.entries()) expect(weighed[index]).toBeCloseTo(weight)
})

test('parses table names as SQL does, with any characters', () => {
  const part = fc.string({ minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(part, part, (schema, name) => {
      expect(parseTableName(`${quoteIdentifier(schema)}.${quoteIdentifier(name)}`)).toEqual({
        schema,
        name,
        isQuoted: true,
      })
      const plain = parseTableName(name)
      if (plain !== undefined && !plain.isQuoted) expect(/["\s]/.test(plain.name)).toBe(false)
    }),
  )
})

test.each([
  ['prose', 'A vacuum removes row versions that no transaction can see any more; tables grow without it. '.repeat(20)],
  ['identifiers', 'select customer_id, created_at from public.orders_2025 where total_amount > 100; '.repeat(20)],
  ['Chinese', '数据库查询很慢，因为缺少索引。'.repeat(20)],
  ['base64', Buffer.from(Array.from({ length: 900 }, (_, index) => (index * 7_919) % 256)).toString('base64')],
  ['numbers', Array.from({ length: 300 }, (_, index) => (index * 0.123_456).toFixed(6)).join(', ')],
  ['emoji', '🐘🐬🚀 '.repeat(50)],
])('estimates tokens approximately, and not too low, for %s', (_, text) => {
  const ratio = estimateTokens(text) / encode(text).length
  expect(ratio).toBeGreaterThanOrEqual(0.95)
  expect(ratio).toBeLessThan(2.5)
})
