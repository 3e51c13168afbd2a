import { expect, test } from 'vitest'
import { isEditable, quotedName, rowsStatement, tablesIn } from './tables.ts'

const plain = { isKey: false, isNullable: true, isGenerated: false, hasDefault: false }
const columns = [
  { ...plain, name: 'id', type: 'integer' },
  { ...plain, name: 'we"ird', type: 'character varying(10)' },
]
const table = { schema: 'public', name: 'x"; DROP TABLE y; --', kind: 'r', rows: 1, columns }
const all = { filters: [], sort: undefined, limit: 100, offset: 0 }

test('quotes names with any content', () => {
  expect(quotedName('a"b')).toBe('"a""b"')
  expect(rowsStatement(table, all)).toEqual({
    ...{ text: 'SELECT * FROM "public"."x""; DROP TABLE y; --"\nLIMIT 100 OFFSET 0', parameters: [] },
  })
})

test('passes filter values as parameters, and casts them to the type of the column', () => {
  const filters = [
    { column: 'we"ird', operator: 'contains', value: "50%_'\\" },
    { column: 'id', operator: 'null', value: 'ignored' },
    { column: 'id', operator: 'less', value: "1'; --" },
  ] as const
  const { text, parameters } = rowsStatement(table, { ...all, filters, sort: { column: 'id', isDescending: true } })
  expect(text.split('\n').slice(1)).toEqual([
    'WHERE "we""ird"::text ILIKE $1 AND "id" IS NULL AND "id" < $2::text::integer',
    'ORDER BY "id" DESC NULLS LAST',
    'LIMIT 100 OFFSET 0',
  ])
  expect(parameters).toEqual(["%50\\%\\_'\\\\%", "1'; --"])
})

test('if the table has a primary key, reads the version of each row and orders by the key', () => {
  const keyed = { ...table, name: 't', columns: columns.map(column => ({ ...column, isKey: column.name === 'id' })) }
  expect(isEditable(keyed)).toBe(true)
  expect(isEditable({ ...keyed, kind: 'f' })).toBe(false)
  const sort = { column: 'we"ird', isDescending: true }
  expect(rowsStatement(keyed, { ...all, sort }).text.split('\n')).toEqual([
    'SELECT "id", "we""ird", xmin FROM "public"."t"',
    'ORDER BY "we""ird" DESC NULLS LAST, "id"',
    'LIMIT 100 OFFSET 0',
  ])
  const byKey = { column: 'id', isDescending: false }
  expect(rowsStatement(keyed, { ...all, sort: byKey }).text).toContain('ORDER BY "id"\n')
})

test('ignores columns that the table does not have', () => {
  const filters = [{ column: 'missing', operator: 'equals', value: '1' }] as const
  const sort = { column: 'missing', isDescending: false }
  expect(rowsStatement(table, { ...all, filters, sort })).toEqual(rowsStatement(table, all))
})

test('groups rows of the catalog by table, and treats the estimate -1 as unknown', () => {
  const rows = [
    ['public', 'a', 'r', '12', 'id', 'integer'],
    ['public', 'a', 'r', '12', 'name', 'text'],
    ['other', 'a', 'r', '-1', 'id', 'bigint'],
    ['other', 'v', 'v', '0', 'id', 'bigint'],
  ]
  expect(
    tablesIn(rows).map(({ schema, name, rows: count, columns: own }) => [schema, name, count, own.length]),
  ).toEqual([
    ['public', 'a', 12, 2],
    ['other', 'a', undefined, 1],
    ['other', 'v', undefined, 1],
  ])
})
