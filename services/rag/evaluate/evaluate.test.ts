import fc from 'fast-check'
import { expect, test } from 'vitest'
import { interval } from './bootstrap.ts'
import { judgedQueries } from './collection.ts'
import { evaluate, evaluationText } from './evaluate.ts'
import { metricsOf } from './metrics.ts'

const judged = new Map([
  ['a', 4],
  ['b', 2],
  ['c', 1],
  ['self', -1],
])

test('metrics equal values that were computed by hand', () => {
  // Ranks: x 1, b 2, a 3; the ideal order is a, b, c.
  const found = metricsOf(['self', 'x', 'b', 'x', 'a', 'b'], judged)
  const ideal = 4 / Math.log2(2) + 2 / Math.log2(3) + 1 / Math.log2(4)
  expect(found.ndcg10).toBeCloseTo((2 / Math.log2(3) + 4 / Math.log2(4)) / ideal, 12)
  expect(found.recall10).toBeCloseTo(2 / 3, 12)
  expect(found.mrr10).toBe(1 / 2)
  expect(metricsOf([], judged)).toEqual({ ndcg10: 0, recall10: 0, recall100: 0, mrr10: 0 })
  expect(metricsOf(['a'], new Map())).toEqual({ ndcg10: 0, recall10: 0, recall100: 0, mrr10: 0 })
})

test('metrics count documents only up to their depth', () => {
  const others = (count: number) => Array.from({ length: count }, (_, index) => `o${index}`)
  const found = metricsOf([...others(10), 'a', ...others(10), ...others(99).slice(10), 'b'], judged)
  expect(found).toEqual({ ndcg10: 0, recall10: 0, recall100: 1 / 3, mrr10: 0 })
})

const ids = fc.uniqueArray(fc.constantFrom(...'abcdefghijklmnop'), { maxLength: 16 })
const scores = fc
  .uniqueArray(fc.tuple(fc.constantFrom(...'abcdefghijklmnop'), fc.integer({ min: -1, max: 4 })), {
    selector: ([id]) => id,
  })
  .map(pairs => new Map(pairs))

test('metrics are from 0 to 1, the ideal order has the best nDCG, and repeats and negative scores change nothing', () => {
  fc.assert(
    fc.property(ids, scores, (ranking, judgements) => {
      const metrics = metricsOf(ranking, judgements)
      for (const value of Object.values(metrics)) {
        expect(value).toBeGreaterThanOrEqual(0)
        expect(value).toBeLessThanOrEqual(1 + 1e-12)
      }
      const ideal = [...judgements].toSorted((one, other) => other[1] - one[1]).map(([id]) => id)
      const hasRelevant = [...judgements.values()].some(score => score > 0)
      expect(metricsOf(ideal, judgements).ndcg10).toBeCloseTo(hasRelevant ? 1 : 0, 12)
      expect(
        metricsOf(
          ranking.flatMap(id => [id, id]),
          judgements,
        ),
      ).toEqual(metrics)
      const counted = ranking.filter(id => (judgements.get(id) ?? 0) >= 0)
      expect(metricsOf(counted, judgements)).toEqual(metrics)
    }),
  )
})

test('intervals contain the mean, are deterministic, and shrink with the number of queries', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 30 }), values => {
      const { mean, low, high } = interval(values)
      expect(low).toBeLessThanOrEqual(mean + 1e-9)
      expect(high).toBeGreaterThanOrEqual(mean - 1e-9)
      expect(interval(values)).toEqual({ mean, low, high })
    }),
    { numRuns: 20 },
  )
  const halves = (count: number) => Array.from({ length: count }, (_, index) => index % 2)
  const width = ({ low, high }: { low: number; high: number }) => high - low
  // The normal interval of a mean of 100 such values is 0.196 wide.
  expect(width(interval(halves(100)))).toBeCloseTo(0.196, 1)
  expect(width(interval(halves(1_000)))).toBeLessThan(width(interval(halves(100))) / 2)
})

test('reads queries and judgements, with and without a header; errors name the line', () => {
  const queries = '{"id":"1","text":"one"}\n{"_id":2,"text":"two"}\n{"id":"3","text":"not judged"}\n'
  const judgements = 'query-id\tcorpus-id\tscore\n1\ta\t4\n1\tb\t-1\n2\tc\t1\n'
  const found = judgedQueries(queries, judgements)
  expect(found.map(({ id, text, judgements: own }) => [id, text, [...own]])).toEqual([
    [
      '1',
      'one',
      [
        ['a', 4],
        ['b', -1],
      ],
    ],
    ['2', 'two', [['c', 1]]],
  ])
  expect(judgedQueries(queries, judgements.split('\n').slice(1).join('\n')).length).toBe(2)
  expect(() => judgedQueries('{"id":1}', judgements)).toThrow('--queries line 1')
  expect(() => judgedQueries('nonsense', judgements)).toThrow('--queries line 1: is not JSON')
  expect(() => judgedQueries(queries, '1\ta')).toThrow('--judgements line 1')
  expect(() => judgedQueries(queries, '9\ta\t1')).toThrow('no query of --queries')
})

test('an evaluation compares the variants per query, and a failed query counts as 0', async () => {
  const queries = ['one', 'two', 'none'].map((text, index) => ({
    id: String(index),
    text,
    judgements: new Map(text === 'none' ? [] : [[`${text} document`, 1]]),
  }))
  const good = { name: 'good', find: async (query: string) => ['noise', `${query} document`] }
  const bad = {
    name: 'bad',
    find: async (query: string) => {
      if (query === 'two') throw new Error('gone')
      return [`${query} document`]
    },
  }
  const options = { parallel: 2, onProgress: () => {}, signal: AbortSignal.timeout(5_000) }
  const { arms, differences, ...counts } = await evaluate(queries, [good, bad], options)
  expect(counts).toEqual({ queries: 2, unanswerable: 1 })
  expect(
    arms.map(({ name, metrics, failures }) => [name, metrics.mrr10.mean, metrics.recall10.mean, failures]),
  ).toEqual([
    ['good', 0.5, 1, []],
    ['bad', 0.5, 0.5, ['1: gone']],
  ])
  expect(differences.map(({ arm, than, metrics }) => [arm, than, metrics.recall10.mean])).toEqual([
    ['bad', 'good', -0.5],
  ])
  const text = evaluationText({ arms, differences, ...counts })
  expect(text).toContain('bad: 1 queries failed and count 0; the first: 1: gone')
  expect(text).toMatch(/^bad - good +0\.\d{3}|-0/m)
})
