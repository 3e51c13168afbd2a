import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { draftAnnotation, isUpToDate, stamped } from './up-to-date.ts'

describe('covers', () => {
  test.each<[string, unknown, unknown, boolean]>([
    ['defaults added by the server', { a: 1, b: 2 }, { a: 1 }, true],
    ['another value', { a: 2 }, { a: 1 }, false],
    ['a missing field', {}, { a: 1 }, false],
    ['a missing object', undefined, { a: 1 }, false],
    ['an empty map that the server drops', undefined, {}, true],
    ['an empty draft', { a: 1 }, undefined, true],
    ['named items in another order', [{ name: 'b' }, { name: 'a', x: 1 }], [{ name: 'a' }, { name: 'b' }], true],
    ["another manager's container", [{ name: 'a' }, { name: 'sidecar' }], [{ name: 'a' }], true],
    ['a missing named item', [{ name: 'a' }], [{ name: 'a' }, { name: 'b' }], false],
    [
      'several items with one name',
      [
        { name: 'a', x: 1 },
        { name: 'a', x: 2 },
      ],
      [
        { name: 'a', x: 2 },
        { name: 'a', x: 1 },
      ],
      true,
    ],
    [
      'several items with one name, of which one differs',
      [
        { name: 'a', x: 1 },
        { name: 'a', x: 2 },
      ],
      [{ name: 'a', x: 3 }],
      false,
    ],
    ['a longer list of values', ['x', 'y'], ['x'], false],
    ['values in another order', ['x', 'y'], ['y', 'x'], false],
    ['an empty list', [], ['x'], false],
  ])('%s', (_, actual, wanted, expected) => {
    expect(isUpToDate(actual, wanted)).toBe(expected)
  })

  test('any object equals its own draft, and so does a copy with more fields', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (object, more) => {
        expect(isUpToDate(object, object)).toBe(true)
        expect(isUpToDate({ ...object, added: more }, { ...object, added: undefined })).toBe(true)
      }),
    )
  })
})

describe('stamped', () => {
  const draft = { metadata: { name: 'a', annotations: { kept: 'yes' } }, data: { x: '1', y: '2' } }
  test('a draft that lost a field has another digest', () => {
    const [before, after] = [stamped(draft), stamped({ ...draft, data: { x: '1' } })]
    expect(before.metadata.annotations?.kept).toBe('yes')
    expect(isUpToDate(before, after)).toBe(false)
    const digest = { [draftAnnotation]: expect.stringMatching(/^[0-9a-f]{16}$/) }
    expect(before.metadata.annotations).toMatchObject(digest)
    expect(stamped(draft)).toEqual(before)
  })
})
