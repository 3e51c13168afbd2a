import { expect, test } from 'vitest'
import { RecordKeys } from './record-keys.ts'

/** Called as the scanner calls it, in the middle of a chunk. */
const isTaken = (keys: RecordKeys, name: string): boolean => {
  const chunk = Buffer.from(`{"${name}":1}`)
  return keys.takesSame(chunk, 2, chunk.length - 4)
}
const readKey = (keys: RecordKeys, name: string): void => keys.key(Buffer.from(name), false, false)

test('a key is recognized only by its bytes and its position in the first record', () => {
  const keys = new RecordKeys()
  keys.begin()
  for (const name of ['a', 'bc', 'd']) {
    expect(isTaken(keys, name)).toBe(false)
    readKey(keys, name)
  }
  keys.end()
  keys.begin()
  expect(['a', 'bc', 'd', 'a'].map(name => isTaken(keys, name))).toEqual([true, true, true, false])
  keys.end()
  expect(keys.isUniform).toBe(true)
  keys.begin()
  readKey(keys, 'd')
  expect(['a', 'bd', 'b', 'bcc', 'bc'].map(name => isTaken(keys, name))).toEqual([false, false, false, false, true])
  readKey(keys, 'a')
  keys.end()
  expect([keys.isUniform, keys.names()]).toEqual([true, ['a', 'bc', 'd']])
})

test('a record that lacks a key is distinguished from a complete one', () => {
  const keys = new RecordKeys()
  for (const names of [
    ['a', 'b'],
    ['a', 'a'],
  ]) {
    keys.begin()
    for (const name of names) if (!isTaken(keys, name)) readKey(keys, name)
    keys.end()
  }
  expect(keys.isUniform).toBe(false)
})
