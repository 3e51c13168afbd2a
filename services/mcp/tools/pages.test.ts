/** Pages of any sections and any budget: all pages together are the whole, in order, and each is within its budget. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cursorOf, line, pageOf, placeOf, shortened, start } from './pages.ts'

const tokensOf = (text: string) => text.length
const sections = fc.array(
  fc.record({
    heading: fc.constantFrom('H', 'HEADING'),
    lines: fc.array(fc.stringMatching(/^[a-z]{1,20}$/), { maxLength: 8 }),
  }),
  { maxLength: 6 },
)

test('come to an end and hold every line once', () => {
  fc.assert(
    fc.property(sections, fc.integer({ min: 100, max: 300 }), (all, budget) => {
      const seen: string[] = []
      let place: typeof start | undefined = start
      for (let pages = 0; place !== undefined; pages++) {
        expect(pages).toBeLessThan(100)
        const page = pageOf(all, place, budget, tokensOf)
        expect(tokensOf(page.text)).toBeLessThanOrEqual(budget)
        seen.push(...page.text.split('\n').filter(text => text !== '' && text !== text.toUpperCase()))
        place = page.next
      }
      expect(seen).toEqual(all.flatMap(({ lines }) => lines))
    }),
  )
})

test('take a line that is longer than a page by its beginning', () => {
  const page = pageOf([{ heading: 'h', lines: ['x'.repeat(1_000), 'next'] }], start, 100, tokensOf)
  expect(page.text).toMatch(/^h\nx{20,40}…\nnext$/)
  expect(page.next).toBeUndefined()
})

test('go on by a cursor that is of the same question', () => {
  fc.assert(
    fc.property(fc.nat(999_999), fc.nat(999_999), fc.string(), (section, at, other) => {
      const cursor = cursorOf({ schema: 'a' }, { section, line: at })
      expect(placeOf({ schema: 'a' }, cursor)).toEqual({ section, line: at })
      expect(placeOf({ schema: 'b' }, cursor)).toBeUndefined()
      expect(placeOf({ schema: 'a' }, other)).toBeUndefined()
    }),
  )
})

test('lines are one line, and cells one cell', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { minLength: 1 }), cells => {
      const written = line(cells)
      expect(written).not.toMatch(/[\n\r]/)
      expect(written.split('\t').length).toBeLessThanOrEqual(cells.length)
    }),
  )
})

test('no half of a character is left of one that is cut', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 20 }), (text, most) => {
      expect(shortened(text, most).length).toBeLessThanOrEqual(Math.max(most, 1))
      expect(shortened(text, most).isWellFormed()).toBe(true)
    }),
  )
})
