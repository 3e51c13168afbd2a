import { describe, expect, test } from 'vitest'
import { planOf } from './plan.ts'
import { columnsByTable, createLines, createResults, csvOf, jsonOf } from './sql.ts'

const answer = [
  { type: 'columns', statement: 0, columns: [{ name: 'id', type: 23 }] },
  { type: 'rows', statement: 0, rows: [['1'], [null]] },
  { type: 'rows', statement: 0, rows: [['3']] },
  { type: 'complete', statement: 0, command: 'SELECT', row_count: 3, ms: 4, more: false },
  { type: 'notice', statement: 1, severity: 'WARNING', sqlstate: '01000', message: 'careful', hint: 'x' },
  { type: 'error', statement: 1, sqlstate: '42P01', message: 'no table', position: 15 },
]

describe('the response to statements', () => {
  test('does not depend on how the text is divided into chunks', () => {
    const text = `${answer.map(line => JSON.stringify(line)).join('\n')}\n`
    for (const size of [1, 7, 64, text.length]) {
      const [lines, { results, apply }] = [createLines(), createResults()]
      for (let at = 0; at < text.length; at += size) for (const line of lines(text.slice(at, at + size))) apply(line)
      expect(results).toEqual([
        {
          ...{ statement: 0, columns: [{ name: 'id', type: 23 }], rows: [['1'], [null], ['3']], notices: [] },
          ...{ complete: { command: 'SELECT', rowCount: 3, ms: 4, more: false }, fault: undefined },
        },
        {
          ...{ statement: 1, columns: undefined, rows: [], complete: undefined },
          notices: [{ severity: 'WARNING', message: 'careful', hint: 'x' }],
          fault: { message: 'no table', sqlstate: '42P01', position: 15 },
        },
      ])
    }
  })

  test('ignores lines of an unknown format', () => {
    const { results, apply } = createResults()
    for (const line of [null, 1, 'x', { type: 'rows', statement: 0, rows: [[{}]] }]) apply(line)
    expect(results.flatMap(({ rows }) => rows)).toEqual([])
    expect(createLines()('no JSON\n{"a":1}\n')).toEqual([{ a: 1 }])
  })
})

describe('exports', () => {
  const columns = [
    { name: 'id', type: 23 },
    { name: 'big', type: 20 },
    { name: 'id', type: 25 },
    { name: 'data', type: 3802 },
  ]
  const rows = [
    ['1', '9007199254740993', 'a "b", c', '{"x":1}'],
    [null, null, '', null],
  ]

  test('CSV distinguishes null from an empty text', () => {
    expect(csvOf(columns, rows)).toBe('id,big,id,data\n1,9007199254740993,"a ""b"", c","{""x"":1}"\n,,"",\n')
  })

  test('JSON keeps all digits of bigint, and all columns with the same name', () => {
    expect(JSON.parse(jsonOf(columns, rows))).toEqual([
      { id: 1, big: '9007199254740993', id_2: 'a "b", c', data: { x: 1 } },
      { id: null, big: null, id_2: '', data: null },
    ])
  })

  test('JSON keeps all digits of numbers in json and jsonb values, at any depth', () => {
    const deep = `${'['.repeat(100)}${']'.repeat(100)}`
    const values = [['{"n": 12345678901234567890}'], [deep], ['"a\\nb"']]
    const text = jsonOf([{ name: '__proto__', type: 114 }], values)
    expect(text).toContain('{"n":12345678901234567890}')
    expect(JSON.parse(text)[1]).toEqual(JSON.parse(`{"__proto__":${deep}}`))
    expect(jsonOf([{ name: 'flag', type: 16 }], [['t'], ['f']])).toBe(
      '[\n  {\n    "flag": true\n  },\n  {\n    "flag": false\n  }\n]\n',
    )
    expect(jsonOf([{ name: 'none', type: 25 }], [])).toBe('[]\n')
  })
})

describe('a plan', () => {
  const scan = {
    'Node Type': 'Seq Scan',
    'Relation Name': 'fruit',
    'Total Cost': 30,
    'Plan Rows': 5,
    Filter: '(a = 1)',
  }
  const text = JSON.stringify([{ Plan: { 'Node Type': 'Sort', 'Total Cost': 40, 'Plan Rows': 5, Plans: [scan] } }])

  test('is a tree with the share of each node', () => {
    expect(planOf(text)).toMatchObject([
      { depth: 0, title: 'Sort', share: 0.25, actual: undefined },
      { depth: 1, title: 'Seq Scan on fruit', share: 0.75, details: ['Filter: (a = 1)'] },
    ])
  })

  test('has the time of all loops after EXPLAIN ANALYZE', () => {
    const node = { 'Node Type': 'Index Scan', 'Actual Total Time': 2, 'Actual Loops': 3, 'Actual Rows': 4 }
    expect(planOf(JSON.stringify([{ Plan: node }]))).toMatchObject([{ actual: { rows: 12, ms: 6 }, share: 1 }])
  })

  test.each(['', '[]', '{}', '[{"Plan":1}]', 'text'])('%j is not a plan', value =>
    expect(planOf(value)).toBeUndefined(),
  )
})

test('a table can have the name of an object member, such as constructor', () => {
  const names = ['constructor', '__proto__', 'toString', 'shop']
  const tables = columnsByTable(
    names.flatMap(name => [
      [name, 'id'],
      [name, 'name'],
      [name, null],
    ]),
  )
  expect(Object.keys(tables)).toEqual(names)
  for (const name of names) expect(tables[name]).toEqual(['id', 'name'])
})
