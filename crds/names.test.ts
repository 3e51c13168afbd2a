/** Host labels and names of children: what an id gives never changes, or data are not found again. */
import { expect, test } from 'vitest'
import { branchHostLabel, branchName, childNames, hostLabel } from './names.ts'

const random = 'd0e6be7d-f4c4-4f9e-9094-2adfd944e71b'
const byTime = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'

test('of an id that begins with the time, the label has its last digits, which differ from those of the same minute', () => {
  expect(hostLabel('shop', byTime)).toBe('shop-93a4b5c6')
  expect(hostLabel('shop', random)).toBe('shop-d0e6be7d')
})

test('a label that was told stays, whoever told it', () => {
  expect(hostLabel('shop', byTime, 'shop-019c1f2a.db.test')).toBe('shop-019c1f2a')
  expect(hostLabel('shop', byTime, 'shop-93a4b5c6.db.test')).toBe('shop-93a4b5c6')
  expect(hostLabel('shop', random, 'shop-d0e6be7d.db.test')).toBe('shop-d0e6be7d')
  // The status of another one, that was copied with it.
  expect(hostLabel('shop', byTime, 'other-01234567.db.test')).toBe('shop-93a4b5c6')
})

test('children are named by the first 16 digits of any id', () => {
  expect(childNames.claim(random, 1)).toBe('db-d0e6be7df4c44f9e-1-data')
  expect(childNames.claim(byTime, 1)).toBe('db-019c1f2a5b3c7d4e-1-data')
})

test('a branch is named after its database and its own id, and that name is its host label', () => {
  expect(branchName('shop', byTime)).toBe('shop-93a4b5c6')
  expect(branchHostLabel('shop-93a4b5c6', byTime)).toBe('shop-93a4b5c6')
  expect(branchName('a'.repeat(50), byTime)).toHaveLength(59)
})

test("a name of somebody's own choice gives nobody's else host label", () => {
  expect(branchHostLabel('shop-d0e6be7d', byTime)).toBe('shop-d0e6be7d-93a4b5c6')
  expect(branchHostLabel('a.b', byTime)).toBe('a-b-93a4b5c6')
  expect(branchHostLabel(`${'a'.repeat(100)}-93a4b5c6`, byTime)).toBe(`${'a'.repeat(54)}-93a4b5c6`)
})
