import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { commonKeys } from './json-keys.ts'

const keysOf = (text: string) => commonKeys(Buffer.from(text), 50)

describe('the keys of a list of records', () => {
  test.each<[string, string[] | undefined]>([
    ['[{"a":1,"b":"x"},{"a":2,"b":null}]', ['a', 'b']],
    [' [ { "a" : [1,{"b":"]}"}] , "ä" : "\\"," } , {"a":{},"ä":1.5e3}\n]\t', ['a', 'ä']],
    ['[{}]', []],
    ['[{},{}]', []],
    // Whatever is not of this form is for a parser to judge.
    ['[]', undefined],
    ['{"a":1}', undefined],
    ['[1]', undefined],
    ['[{"a":1},{"b":1}]', undefined],
    ['[{"a":1,"b":2},{"b":2,"a":1}]', undefined],
    ['[{"a":1},{"a":1,"b":2}]', undefined],
    ['[{"a":1,"b":2},{"a":1}]', undefined],
    ['[{"a":1},{}]', undefined],
    ['[{},{"a":1}]', undefined],
    ['[{"a":1,"a":2}]', undefined],
    ['[{"\\u0061":1}]', undefined],
    ['[{"a":1}', undefined],
    ['[{"a":1}]]', undefined],
    ['[{"a":1}],', undefined],
    ['[{"a":"', undefined],
    ['[{"a":1]]', undefined],
    [`[{"a":${'['.repeat(60)}`, undefined],
    ['', undefined],
  ])('of %s', (text, keys) => expect(keysOf(text)).toEqual(keys))

  test('are those that JSON.parse finds, however the records are written', () => {
    const record = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 5 })
    fc.assert(
      fc.property(record, fc.array(fc.jsonValue(), { maxLength: 4 }), fc.boolean(), (first, others, pretty) => {
        const rows = [first, ...others.map(value => Object.fromEntries(Object.keys(first).map(key => [key, value])))]
        const text = JSON.stringify(rows, null, pretty ? 2 : undefined)
        const found = commonKeys(Buffer.from(text), 1_000)
        const parsed = Object.keys(JSON.parse(text)[0])
        const isPlain = parsed.every(key => !JSON.stringify(key).includes('\\'))
        if (isPlain) expect(found).toEqual(parsed)
        else expect(found).toBeUndefined()
      }),
    )
  })

  test('of any bytes are found or not, at once', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('[', ']', '{', '}', '"', ',', ':', '\\', 'a', ' ', '1')), pieces => {
        const text = pieces.join('')
        const found = keysOf(text)
        const isArray = (value: unknown): value is object[] => Array.isArray(value)
        try {
          const value: unknown = JSON.parse(text)
          if (found !== undefined)
            expect(isArray(value) && value.every(one => Object.keys(one).join() === found.join())).toBe(true)
        } catch {
          // What is no JSON may look like it here; Postgres says so.
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
