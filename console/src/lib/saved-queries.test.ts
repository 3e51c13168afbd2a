import { expect, test } from 'vitest'
import { fileOf, queriesIn, withQuery } from './saved-queries.ts'

test('ignores stored content that is not a query', () => {
  const query = { name: 'a', text: 'SELECT 1' }
  expect(queriesIn(JSON.stringify([query, null, 1, { name: 'b' }, { ...query, more: 1 }]))).toEqual([query, query])
  expect(['', '{', '{}', 'null', '"x"', null].map(queriesIn)).toEqual(Array(6).fill([]))
})

test('sorts queries by name, and replaces a query with the same name', () => {
  const saved = [
    { name: 'a', text: '1' },
    { name: 'c', text: '3' },
  ]
  expect(withQuery(saved, { name: 'b', text: '2' })?.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  expect(withQuery(saved, { name: 'c', text: '4' })).toEqual([saved[0], { name: 'c', text: '4' }])
})

test('accepts at most 100 queries, and limits the length of a text', () => {
  const full = Array.from({ length: 100 }, (_, index) => ({ name: String(index), text: '' }))
  expect(withQuery(full, { name: 'one more', text: '' })).toBeUndefined()
  expect(withQuery(full, { name: '7', text: 'x' })).toHaveLength(100)
  expect(withQuery([], { name: 'long', text: 'x'.repeat(65_537) })).toBeUndefined()
})

test('writes the name of each query above its text', () => {
  const saved = [
    { name: 'a\nb', text: 'SELECT 1\n' },
    { name: 'c', text: 'SELECT 2' },
  ]
  expect(fileOf(saved)).toBe('-- a b\nSELECT 1\n\n-- c\nSELECT 2\n')
})
