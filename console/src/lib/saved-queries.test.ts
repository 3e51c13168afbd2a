import { expect, test } from 'vitest'
import { fileOf, queriesIn, withQuery } from './saved-queries.ts'

test('what is no query is left out, whatever the storage contains', () => {
  const query = { name: 'a', text: 'SELECT 1' }
  expect(queriesIn(JSON.stringify([query, null, 1, { name: 'b' }, { ...query, more: 1 }]))).toEqual([query, query])
  expect(['', '{', '{}', 'null', '"x"', null].map(queriesIn)).toEqual(Array(6).fill([]))
})

test('queries are sorted, and one of the same name is replaced', () => {
  const saved = [
    { name: 'a', text: '1' },
    { name: 'c', text: '3' },
  ]
  expect(withQuery(saved, { name: 'b', text: '2' })?.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  expect(withQuery(saved, { name: 'c', text: '4' })).toEqual([saved[0], { name: 'c', text: '4' }])
})

test('there are at most 100, each as long as the API accepts', () => {
  const full = Array.from({ length: 100 }, (_, index) => ({ name: String(index), text: '' }))
  expect(withQuery(full, { name: 'one more', text: '' })).toBeUndefined()
  expect(withQuery(full, { name: '7', text: 'x' })).toHaveLength(100)
  expect(withQuery([], { name: 'long', text: 'x'.repeat(65_537) })).toBeUndefined()
})

test('a file has each query below its name', () => {
  const saved = [
    { name: 'a\nb', text: 'SELECT 1\n' },
    { name: 'c', text: 'SELECT 2' },
  ]
  expect(fileOf(saved)).toBe('-- a b\nSELECT 1\n\n-- c\nSELECT 2\n')
})
