/**
 * Pages of any sections with any limit: all pages together are complete and in order, and each page is within its
 * limit.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cursorOf, line, pageOf, positionOf, shortened, start } from './pages.ts'

const tokensOf = (text: string) => text.length
const sections = fc.array(
  fc.record({
    heading: fc.constantFrom('H', 'HEADING'),
    lines: fc.array(fc.stringMatching(/^[a-z]{1,20}$/), { maxLength: 8 }),
  }),
  { maxLength: 6 },
)

test('pages end, and contain every line once', () => {
  fc.assert(
    fc.property(sections, fc.integer({ min: 100, max: 300 }), (all, budget) => {
      const seen: string[] = []
      let position: typeof start | undefined = start
      for (let pages = 0; position !== undefined; pages++) {
        expect(pages).toBeLessThan(100)
        const page = pageOf(all, position, budget, tokensOf)
        expect(tokensOf(page.text)).toBeLessThanOrEqual(budget)
        seen.push(...page.text.split('\n').filter(text => text !== '' && text !== text.toUpperCase()))
        position = page.next
      }
      expect(seen).toEqual(all.flatMap(({ lines }) => lines))
    }),
  )
})

test('pages truncate a line that is longer than a page', () => {
  const page = pageOf([{ heading: 'h', lines: ['x'.repeat(1_000), 'next'] }], start, 100, tokensOf)
  expect(page.text).toMatch(/^h\nx{20,40}…\nnext$/)
  expect(page.next).toBeUndefined()
})

test('pages continue with a cursor of the same arguments', () => {
  fc.assert(
    fc.property(fc.nat(999_999), fc.nat(999_999), fc.string(), (section, at, other) => {
      const cursor = cursorOf({ schema: 'a' }, { section, line: at })
      expect(positionOf({ schema: 'a' }, cursor)).toEqual({ section, line: at })
      expect(positionOf({ schema: 'b' }, cursor)).toBeUndefined()
      expect(positionOf({ schema: 'a' }, other)).toBeUndefined()
    }),
  )
})

test('a line stays one line, and a cell stays one cell', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { minLength: 1 }), cells => {
      const written = line(cells)
      expect(written).not.toMatch(/[\n\r]/)
      expect(written.split('\t').length).toBeLessThanOrEqual(cells.length)
    }),
  )
})

test('truncation never splits a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 20 }), (text, most) => {
      expect(shortened(text, most).length).toBeLessThanOrEqual(Math.max(most, 1))
      expect(shortened(text, most).isWellFormed()).toBe(true)
    }),
  )
})
