import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { namesStrongly, namesWeakly, readEntityTags } from './entity-tags.ts'

describe('a list of tags', () => {
  test.each([
    ['*', '*'],
    [' * ', '*'],
    ['"a"', ['"a"']],
    ['"a", W/"b" ,"c,d"', ['"a"', 'W/"b"', '"c,d"']],
    [',"a",,', ['"a"']],
    ['""', ['""']],
    ['', undefined],
    [',', undefined],
    ['a', undefined],
    ['"a', undefined],
    ['"a" "b"', undefined],
    ['"a", *', undefined],
    ['w/"a"', undefined],
    ['"a b"', ['"a b"']],
  ])('%j', (text, tags) => {
    expect(readEntityTags(text)).toEqual(tags)
  })

  test.each([' '.repeat(16_000), `"a",${' '.repeat(16_000)}x`, ','.repeat(16_000), '"'.repeat(16_000)])(
    'is parsed in linear time: %#',
    text => {
      const began = performance.now()
      readEntityTags(text)
      expect(performance.now() - began).toBeLessThan(250)
    },
  )

  test('is parsed back to the same tags', () => {
    const characters = Array.from({ length: 0x5e }, (_, n) => String.fromCharCode(0x21 + n)).filter(it => it !== '"')
    const tag = fc
      .tuple(fc.constantFrom('', 'W/'), fc.string({ unit: fc.constantFrom(...characters) }))
      .map(([weak, text]) => `${weak}"${text}"`)
    const separator = fc.constantFrom(',', ', ', ' ,\t', ',,')
    fc.assert(
      fc.property(fc.array(tag, { minLength: 1 }), separator, (tags, between) => {
        expect(readEntityTags(tags.join(between))).toEqual(tags)
      }),
    )
  })
})

test.each([
  ['"a"', '"a"', true, true],
  ['W/"a"', '"a"', false, true],
  ['"a"', 'W/"a"', false, true],
  ['W/"a"', 'W/"a"', false, true],
  ['"b", "a"', '"a"', true, true],
  ['"b"', '"a"', false, false],
  ['*', 'W/"a"', true, true],
])('%s names %s: strongly %s, weakly %s', (text, tag, strongly, weakly) => {
  const tags = readEntityTags(text)
  if (tags === undefined) throw new Error('no list')
  expect([namesStrongly(tags, tag), namesWeakly(tags, tag)]).toEqual([strongly, weakly])
})
