/**
 * Host labels and names of children. The names derived from an id must never change, because data are found by them.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  branchHostLabel,
  branchName,
  childNames,
  firstMember,
  hostLabel,
  isMemberOf,
  memberOfClaim,
  parseMemberName,
} from './names.ts'

const random = 'd0e6be7d-f4c4-4f9e-9094-2adfd944e71b'
const byTime = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'

test('an id that begins with a time gives a label with its last digits, which differ between ids of the same minute', () => {
  expect(hostLabel('shop', byTime)).toBe('shop-93a4b5c6')
  expect(hostLabel('shop', random)).toBe('shop-d0e6be7d')
})

test('a published label stays the same, whatever version published it', () => {
  expect(hostLabel('shop', byTime, 'shop-019c1f2a.db.test')).toBe('shop-019c1f2a')
  expect(hostLabel('shop', byTime, 'shop-93a4b5c6.db.test')).toBe('shop-93a4b5c6')
  expect(hostLabel('shop', random, 'shop-d0e6be7d.db.test')).toBe('shop-d0e6be7d')
  // The status was copied from another database, together with the object.
  expect(hostLabel('shop', byTime, 'other-01234567.db.test')).toBe('shop-93a4b5c6')
})

test('the names of children contain the first 16 digits of the id', () => {
  expect(childNames.claim(random, 1)).toBe('db-d0e6be7df4c44f9e-1-data')
  expect(childNames.claim(byTime, 1)).toBe('db-019c1f2a5b3c7d4e-1-data')
})

test("the names of a service's objects contain its database, type, content and id, and do not parse as a member's", () => {
  const names = [
    childNames.serviceAddress(random, 'mcp'),
    childNames.serviceWorkload(random, 'rest', '0123456789abcdef'),
    childNames.serviceSecret(random, '89abcdef'),
    childNames.serviceState(random, '89abcdef'),
  ]
  expect(names).toEqual([
    'db-d0e6be7df4c44f9e-mcp',
    'db-d0e6be7df4c44f9e-rest-0123456789',
    'db-d0e6be7df4c44f9e-s-89abcdef',
    'db-d0e6be7df4c44f9e-s-89abcdef-state',
  ])
  for (const name of names) expect(parseMemberName('statefulSet', name)).toBeUndefined()
})

test("a branch's name contains its database's name and its own id, and is its host label", () => {
  expect(branchName('shop', byTime)).toBe('shop-93a4b5c6')
  expect(branchHostLabel('shop-93a4b5c6', byTime)).toBe('shop-93a4b5c6')
  expect(branchName('a'.repeat(50), byTime)).toHaveLength(59)
})

test('a name that a user chose never has the host label of another branch', () => {
  expect(branchHostLabel('shop-d0e6be7d', byTime)).toBe('shop-d0e6be7d-93a4b5c6')
  expect(branchHostLabel('a.b', byTime)).toBe('a-b-93a4b5c6')
  expect(branchHostLabel(`${'a'.repeat(100)}-93a4b5c6`, byTime)).toBe(`${'a'.repeat(54)}-93a4b5c6`)
})

describe("the names of a member's objects", () => {
  const kinds = ['statefulSet', 'pod', 'claim', 'configuration'] as const
  const counted = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })
  const member = fc.record({ id: fc.uuid(), incarnation: counted, number: fc.oneof(fc.constant(firstMember), counted) })
  const nameOf = (
    kind: (typeof kinds)[number],
    { id, incarnation, number }: { id: string; incarnation: number; number: number },
  ) => childNames[kind](id, incarnation, number)

  test('for the first member are the same as in earlier versions with only one member', () => {
    expect(kinds.map(kind => childNames[kind](random, 7, firstMember))).toEqual([
      'db-d0e6be7df4c44f9e-7',
      'db-d0e6be7df4c44f9e-7-0',
      'db-d0e6be7df4c44f9e-7-data',
      'db-d0e6be7df4c44f9e-7-config',
    ])
    expect(kinds.map(kind => childNames[kind](random, 7, 2))).toEqual([
      'db-d0e6be7df4c44f9e-7-m2',
      'db-d0e6be7df4c44f9e-7-m2-0',
      'db-d0e6be7df4c44f9e-7-m2-data',
      'db-d0e6be7df4c44f9e-7-m2-config',
    ])
  })

  test('parse to their member, and not as another kind', () => {
    fc.assert(
      fc.property(member, fc.constantFrom(...kinds), fc.constantFrom(...kinds), (of, kind, other) => {
        const named = parseMemberName(kind, nameOf(kind, of))
        expect(named).toEqual({
          digits: of.id.replaceAll('-', '').slice(0, 16),
          incarnation: of.incarnation,
          number: of.number,
        })
        expect(isMemberOf(named, of.id)).toBe(true)
        if (other !== kind) expect(parseMemberName(other, nameOf(kind, of))).toBeUndefined()
      }),
    )
  })

  test('differ between any two members, and between any two objects of one member', () => {
    const small = fc.integer({ min: 1, max: 20 })
    const near = fc.record({
      id: fc.constantFrom(random, byTime),
      incarnation: small,
      number: fc.oneof(fc.constant(firstMember), small),
    })
    const key = ({ id, incarnation, number }: { id: string; incarnation: number; number: number }) =>
      `${id}/${incarnation}/${number}`
    fc.assert(
      fc.property(near, near, (one, other) => {
        const names = (of: typeof one) => kinds.map(kind => nameOf(kind, of))
        const all = key(one) === key(other) ? names(one) : [...names(one), ...names(other)]
        expect(new Set(all).size).toBe(all.length)
      }),
    )
  })

  test('are labels of at most 63 characters, and at most 52 for a StatefulSet', () => {
    const longest = { id: random, incarnation: 999_999_999, number: 999_999 }
    for (const kind of kinds) {
      expect(nameOf(kind, longest)).toMatch(/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/)
      expect(childNames.statefulSet(longest.id, longest.incarnation, longest.number).length).toBeLessThanOrEqual(52)
    }
  })

  test.each([
    'db-d0e6be7df4c44f9e',
    'db-d0e6be7df4c44f9e-1-rest-data',
    'db-d0e6be7df4c44f9e-1-m0-data',
    'mine',
    'db--1-data',
  ])('are not %s', name => {
    for (const kind of kinds) expect(parseMemberName(kind, name)).toBeUndefined()
    expect(memberOfClaim(name)).toBe(firstMember)
  })
})
