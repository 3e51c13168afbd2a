/** `cappedJson` with any object and any limit. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cappedJson } from './cap.ts'

const tokensOf = (text: string) => text.length
const list = fc.array(fc.oneof(fc.string({ maxLength: 20 }), fc.integer()), { maxLength: 30 })

test('contains the beginning of each list, and reports what is missing', () => {
  fc.assert(
    fc.property(list, list, fc.string(), fc.integer({ min: 0, max: 600 }), (first, second, fixed, budget) => {
      const object = { first, second, fixed }
      const text = cappedJson(object, ['first', 'second'], budget, tokensOf, 'ask')
      const least = JSON.stringify({ first: [], second: [], fixed }).length
      if (text === undefined) {
        expect(budget).toBeLessThan(least + 60 + JSON.stringify([first.length, second.length]).length)
        return
      }
      const read = JSON.parse(text)
      expect(text.length).toBeLessThanOrEqual(budget)
      expect(read.fixed).toBe(fixed)
      for (const [key, all] of Object.entries({ first, second })) {
        expect(read[key]).toEqual(all.slice(0, read[key].length))
        const isTruncated = read[key].length < all.length
        expect(read.truncated?.[key]).toBe(isTruncated ? `${read[key].length} of ${all.length}` : undefined)
      }
      if (read.truncated?.second !== undefined) expect(read.first).toEqual([])
    }),
  )
})
