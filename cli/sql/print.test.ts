import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import type { Io } from '../io.ts'
import { createRowPrinter, csvField, type Field, jsonValue, type RowFormat } from './print.ts'

const fields: readonly Field[] = [
  { name: 'name', kind: 'text' },
  { name: 'n', kind: 'number' },
]
const hostile = 'a\u001b[2J'

function printed(format: RowFormat, rows: readonly (readonly (string | null)[])[], isTTY = false): string {
  let text = ''
  const output = Object.assign(
    new Writable({
      write(chunk, _, done) {
        text += chunk
        done()
      },
    }),
    { isTTY },
  )
  const io = { environment: { NO_COLOR: '1' }, output, errors: output } as unknown as Io
  const printer = createRowPrinter(io, format)
  printer.begin([])
  printer.end('CREATE TABLE', 0)
  printer.begin(fields)
  for (const row of rows) printer.row(row)
  printer.end(`SELECT ${rows.length}`, rows.length)
  return text
}

test('a table aligns its columns, NULL is empty, and numbers are right-aligned', () => {
  expect(
    printed('table', [
      ['pear', '3'],
      ['quince', '12'],
      [null, null],
      [hostile, '1'],
    ]),
  ).toBe(`CREATE TABLE
name       n
pear       3
quince    12
            
a\\x1b[2J   1
(4 rows)
`)
})

test('an empty result prints its column names', () => {
  expect(printed('table', [])).toBe('CREATE TABLE\nname  n\n(0 rows)\n')
  expect(printed('csv', [])).toBe('name,n\n')
})

test('after the first 200 rows, rows are printed as they arrive', () => {
  const rows = Array.from({ length: 450 }, (_, at) => [at === 400 ? 'a longer one' : 'x', String(at)])
  const lines = printed('table', rows).split('\n')
  expect(lines).toHaveLength(450 + 4)
  expect(lines.slice(400, 404)).toEqual(['x     398', 'x     399', 'a longer one  400', 'x     401'])
})

test('CSV is unchanged in a pipe; on a terminal, control characters are escaped', () => {
  const rows = [
    ['a,"b"\nc', '1'],
    ['', null],
    [hostile, '2'],
  ]
  expect(printed('csv', rows)).toBe(`name,n\n"a,""b""\nc",1\n"",\n${hostile},2\n`)
  expect(printed('csv', rows, true)).not.toContain('\u001b')
  expect([null, '', 'x', '\r'].map(csvField)).toEqual(['', '""', 'x', '"\r"'])
})

test('JSON has one object per line; numbers that JavaScript would change are strings', () => {
  expect(
    printed('json', [
      ['x', '3'],
      [null, '12345678901234567890'],
    ]),
  ).toBe('{"name":"x","n":3}\n{"name":null,"n":"12345678901234567890"}\n')
  const values = [
    jsonValue('boolean', 't'),
    jsonValue('json', '{"a": [1]}'),
    jsonValue('number', '1.50'),
    jsonValue('number', 'NaN'),
    jsonValue('text', '1'),
  ]
  expect(values).toEqual([true, { a: [1] }, '1.50', 'NaN', '1'])
})
