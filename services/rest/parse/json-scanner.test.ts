import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RestError } from '../errors/rest-error.ts'
import { refusal, splitAt } from '../testing/parsing.ts'
import { JsonScanner, type JsonShape, maximumJsonDepth } from './json-scanner.ts'
import { maximumKeyBytes, maximumKeys } from './record-keys.ts'

function shapeOf(parts: readonly Buffer[]): JsonShape {
  const scanner = new JsonScanner()
  for (const part of parts) scanner.push(part)
  return scanner.end()
}
const shape = (text: string) => shapeOf([Buffer.from(text)])

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The same for a complete value. */
function valueShape(value: unknown): JsonShape {
  if (!Array.isArray(value)) {
    if (isObject(value)) return { kind: 'object', keys: Object.keys(value), isUniform: true }
    return { kind: 'scalar', keys: [], isUniform: true }
  }
  const records: unknown[] = value
  const first = records.find(isObject)
  const keys = Object.keys(first ?? {})
  const isSame = (record: unknown) =>
    isObject(record) && Object.keys(record).length === keys.length && keys.every(key => Object.hasOwn(record, key))
  return { kind: 'array', keys, isUniform: records.every(isSame) }
}

/**
 * Undefined if the text is not JSON. Excludes keys with escapes: V8 13.6 confuses an escaped key with another one that
 * it parsed before ({"\\\\":1}, then {"\ ":1}), so JSON.parse is unreliable for escaped keys.
 */
function parsedShape(text: string): Partial<JsonShape> | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  const { kind, keys, isUniform } = valueShape(value)
  return text.includes('\\') ? { kind } : { kind, keys, isUniform }
}

const scanned = (parts: readonly Buffer[]): JsonShape | undefined => {
  try {
    return shapeOf(parts)
  } catch (error) {
    if (error instanceof RestError && error.code === 'RST102') return undefined
    throw error
  }
}

const positions = fc.array(fc.nat(300))

describe('the scanner agrees with JSON.parse', () => {
  const key = fc.oneof(fc.constantFrom('a', 'b', '1', '__proto__', 'é', '"', '\\', '\u0001', '😀'), fc.string())
  const record = fc.dictionary(key, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 5 })

  test('for any values, wherever they are split', () => {
    const like = fc.tuple(record, fc.array(fc.tuple(fc.jsonValue({ maxDepth: 2 }), fc.boolean()), { maxLength: 4 }))
    const records = like.map(([first, others]) => [
      first,
      ...others.map(([value, isReversed]) => {
        const keys = Object.keys(first)
        return Object.fromEntries((isReversed ? keys.reverse() : keys).map(name => [name, value]))
      }),
    ])
    const values = fc.oneof(records, record, fc.array(fc.oneof(record, fc.jsonValue())), fc.jsonValue())
    fc.assert(
      fc.property(values, fc.boolean(), fc.boolean(), positions, (value, pretty, isEscaped, positions) => {
        const plain = JSON.stringify(value, null, pretty ? 2 : undefined)
        const text = isEscaped ? plain.replaceAll('é', '\\u00e9') : plain
        expect(scanned(splitAt(Buffer.from(text), positions))).toEqual(valueShape(value))
      }),
      { numRuns: 2_000 },
    )
  })

  test('for text that resembles JSON, wherever it is split', () => {
    const pieces = fc.constantFrom(
      ...['[', ']', '{', '}', '"', ',', ':', '\\', '\\"', '\\u00', '61', '\\u0061', 'é', '\u0001', '\ufeff'],
      ...[' ', '\n', '\t', '-', '0', '1', '.', 'e', '+', 'E', 'true', 'null', 'fals', '"a":1', '{"a":1}', '"a"'],
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 14 }), positions, (list, positions) => {
        const text = list.join('')
        const expected = parsedShape(text)
        const found = scanned(splitAt(Buffer.from(text), positions))
        if (expected === undefined) expect(found).toBeUndefined()
        else expect(found).toMatchObject(expected)
      }),
      { numRuns: 20_000 },
    )
  })

  test.each(['-', '01', '1.', '.5', '1e', '1e+', '-0', '0.0e-0', '1E5', '--1', '[1.]', '1 2', '"\t"', '"\\x"', 'nul'])(
    'for %s',
    text => expect(scanned([Buffer.from(text)])?.kind).toEqual(parsedShape(text)?.kind),
  )

  const edges = [
    ...['[1 ,2 ]', '{ "a" : 1 , "b" : 2 }', ' \r\n\t1\t\n\r ', '[ ]', '{ }', '[ [ ] , { } ]', '\v1', '\u00a01', ''],
    ...['[1}', '{"a":1]', ']', '}', '[]]', '{}}', '[', '{', '[1', '{"a":1', '[[]', '{"a":{}', '1]', '1}', '"a"]'],
    ...[
      '[,]',
      '[1,]',
      '[1,,2]',
      '[1 2]',
      '{,}',
      '{"a":1,}',
      '{"a":1,,}',
      '{"a"}',
      '{"a":}',
      '{"a" 1}',
      '{1:1}',
      '{a:1}',
    ],
    ...['{"a":1 "b":2}', '{"a","b"}', '["a":1]', ',', ':', '1,2', '{"a"::1}', '{"a":1:2}', '[1]1', '{}1', 'true1'],
    ...['true', 'tru', 'truf', 'truee', 'fals', 'falsf', 'null ', 'nul]', '[null]', '[nul]', '{"a":true}', 'TRUE'],
    ...[
      '0',
      '9',
      '10',
      '90',
      '00',
      '-',
      '-0',
      '-9',
      '-01',
      '--1',
      '+1',
      '-a',
      '1a',
      '1-',
      '1+1',
      '/',
      '1/',
      '1:',
      '-/',
      '-:',
    ],
    ...[
      '0.5',
      '0.',
      '1.09',
      '.5',
      '1..5',
      '1.5.5',
      '1.a',
      '1./',
      '1.:',
      '1.5a',
      '1.5/',
      '1.5:',
      '1.5-',
      '[0.5,1]',
      '0.5 5',
    ],
    ...[
      '1e5',
      '1E5',
      '0e0',
      '1e09',
      '1e+5',
      '1e-5',
      '1e',
      '1e+',
      '1e+-5',
      '1e5.5',
      '1e5e5',
      '1ea',
      '1e+a',
      '1e5a',
      '1.5e5',
    ],
    ...[
      '1e/',
      '1e:',
      '1e5/',
      '1e5:',
      '1e+/',
      '1e+:',
      '1d5',
      '1f5',
      '[1e5]',
      '{"a":1e5}',
      '{"a":0}',
      '{"a":0.5}',
      '[12,34]',
    ],
    ...['"', '"a', '"a" "b"', '"a"b', '"a b"', '"\u001f"', '"\u0020"', '"\u007f"', '"é😀"', '""', '["a","b"]', '"\n"'],
    ...['"\\', '"\\"', '"\\""', '"\\a"', '"\\/\\b\\f\\n\\r\\t\\\\\\""', '"\\U0061"', '{"\\n":1}', '{"\\":1}'],
    ...[
      '"\\u0061"',
      '"\\u09aFf"',
      '"\\u123"',
      '"\\u12345"',
      '"\\u/123"',
      '"\\u:123"',
      '"\\u@123"',
      '"\\uG123"',
      '"\\u`123"',
    ],
    ...[
      '"\\ug123"',
      '"\\u123 "',
      '{"\\u0061":1}',
      '{"\\u061":1}',
      '{"a":"b"',
      '{"a":"b"}',
      '{"a":[{"b":1}]}',
      '[[{"a":1}]]',
    ],
  ]
  const unfinished = ['"\u001fn"', '{"a"x:1}', '[1e+]', '[1e]', '[-]', '[1.]', '[1e-,1]']
  test.each([...edges, ...unfinished])('for %j, complete and byte by byte', text => {
    const bytes = Buffer.from(text)
    const expected = parsedShape(text)
    for (const positions of [[], [...bytes.keys()], ...[...bytes.keys()].map(position => [position])]) {
      const found = scanned(splitAt(bytes, positions))
      if (expected === undefined) expect(found, positions.join()).toBeUndefined()
      else expect(found, positions.join()).toMatchObject(expected)
    }
  })

  test.each([
    '[{"a":1,"bc":{"x":[1]},"é":"é"},{"bc":2,"é":0,"a":1}]',
    '[{"a":1},{"b":1}]',
    '[{"a":1,"b":1},{"a":1}]',
    '[{"a":1},{"a":1,"b":1}]',
    '[{"ab":1},{"ac":1}]',
    '[{"ab":1},{"a":1}]',
    '[{"a":1},{"ab":1}]',
    '[{"a":{"b":1}},{"a":{"c":1}}]',
    '[{"a":1},1]',
    '[{"a":1},"a"]',
    '[{"a":1},[]]',
    '[1,{"a":1}]',
    '[{},{}]',
    '[{},{"a":1}]',
    '{"a":[{"b":1},{"c":1}],"d":{"e":1}}',
    '[{"2":1,"b":1,"1":1},{"b":1,"1":1,"2":1}]',
    '{"a":1,"":2}',
    '[{"":1},{"":2}]',
  ])('for the records %s, wherever they are split', text => {
    const bytes = Buffer.from(text)
    const expected = valueShape(JSON.parse(text))
    for (const positions of [[], [...bytes.keys()], ...[...bytes.keys()].map(position => [position])])
      expect(scanned(splitAt(bytes, positions)), positions.join()).toEqual(expected)
  })

  test('for escaped keys and values, wherever they are split', () => {
    const bytes = Buffer.from(String.raw`[{"\u0061b":1 ,"c":"\n" ,"d":[]},{"c":"\u0061x","d":1 ,"ab":2}]`)
    for (const positions of [[], [...bytes.keys()], ...[...bytes.keys()].map(position => [position])])
      expect(scanned(splitAt(bytes, positions)), positions.join()).toEqual({
        ...{ kind: 'array', keys: ['ab', 'c', 'd'], isUniform: true },
      })
  })

  test('for escaped keys, whatever was parsed before', () => {
    for (const key of ['\\', '\n', '"', '\\n', '\u0001']) {
      expect(
        shape(
          JSON.stringify([
            { a: 1, [key]: 1 },
            { [key]: 1, a: 1 },
          ]),
        ),
      ).toMatchObject({
        ...{ keys: ['a', key], isUniform: true },
      })
    }
  })

  test('for a record with a duplicate key', () => {
    expect(shape('[{"a":1,"a":2},{"a":1},{"a":1,"b":1,"a":2}]')).toMatchObject({ keys: ['a'], isUniform: false })
    expect(shape('[{"a":1,"b":2},{"a":1,"a":2}]').isUniform).toBe(false)
    expect(shape('[{"a":1,"a":2},{"a":1}]').isUniform).toBe(true)
  })
})

test('the scanner limits the nesting of JSON', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(shape(nested(maximumJsonDepth)).kind).toBe('array')
  expect(refusal(() => shape(nested(maximumJsonDepth + 1))).details).toContain(String(maximumJsonDepth))
  const records = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
  expect(shape(records(maximumJsonDepth)).kind).toBe('object')
  expect(refusal(() => shape(records(maximumJsonDepth + 1))).details).toContain(String(maximumJsonDepth))
})

describe("the scanner's memory is limited", () => {
  const many = (count: number) => `{${Array.from({ length: count }, (_, number) => `"k${number}":1`).join()}}`

  test('for many keys', () => {
    expect(shape(many(maximumKeys)).keys).toHaveLength(maximumKeys)
    expect(shape(many(maximumKeys + 50)).keys).toHaveLength(maximumKeys)
    expect(shape(`[${many(maximumKeys + 50)},${many(maximumKeys + 50)}]`)).toMatchObject({ isUniform: true })
  })

  test('for long keys, however they are split', () => {
    const long = 'k'.repeat(100 * maximumKeyBytes)
    const expected = `${'k'.repeat(maximumKeyBytes)}…`
    for (const positions of [[], [500], [5_000, 20_000], [maximumKeyBytes + 2]]) {
      expect(shapeOf(splitAt(Buffer.from(`[{"${long}":1},{"${long}":2}]`), positions))).toMatchObject({
        keys: [expected],
        isUniform: true,
      })
    }
    const exact = 'k'.repeat(maximumKeyBytes)
    expect(shape(`{"${exact}":1}`).keys).toEqual([exact])
  })
})
