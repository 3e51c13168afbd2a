/** Tests of staged changes of rows: the quoting of their SQL, and their effect in a real Postgres behind the API. */
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type SqlDatabase, startSqlDatabase } from '../api/sql/testing/database.ts'
import {
  changedValue,
  type Edit,
  idOfRow,
  keyOf,
  literal,
  outcomeOf,
  statementOf,
  transactionOf,
  withEdit,
} from './src/lib/edits.ts'
import { createResults } from './src/lib/sql.ts'
import { isEditable, quotedName, rowsStatement, type Table, tablesIn, tablesStatement } from './src/lib/tables.ts'

/** Generates texts with characters that begin or end a token in SQL, and with other characters. */
const hostile = fc.string({
  unit: fc.oneof(fc.constantFrom(...`'"\\$;-/*E()\n\r\t %_{}:,`, '--', "''", '$$', "\\'", 'ä', '😀'), fc.string()),
  maxLength: 12,
})

/**
 * Splits SQL into quoted texts, quoted names and other characters, by the rules of Postgres's lexer. It uses no code
 * that is under test.
 */
function lexed(text: string, isConforming: boolean): { kind: 'text' | 'name' | 'other'; value: string }[] {
  const tokens: { kind: 'text' | 'name' | 'other'; value: string }[] = []
  for (let at = 0; at < text.length; ) {
    const isEscaping = /[eE]/.test(text[at] ?? '') && text[at + 1] === "'"
    const quote = isEscaping ? "'" : text[at]
    if (quote !== "'" && quote !== '"') {
      tokens.push({ kind: 'other', value: text[at++] ?? '' })
      continue
    }
    const hasEscapes = quote === "'" && (isEscaping || !isConforming)
    let value = ''
    for (at += isEscaping ? 2 : 1; text[at] !== quote || text[at + 1] === quote; at++) {
      if (at >= text.length) throw new Error('a quote is not closed')
      if (text[at] === quote || (hasEscapes && text[at] === '\\')) at++
      value += text[at]
    }
    at++
    tokens.push({ kind: quote === '"' ? 'name' : 'text', value })
  }
  return tokens
}

describe('quoting', () => {
  test('a literal is one text with the same value, with standard_conforming_strings on and off', () => {
    fc.assert(
      fc.property(hostile, fc.boolean(), (value, isConforming) => {
        expect(lexed(literal(value), isConforming)).toEqual([{ kind: 'text', value }])
      }),
    )
    expect(literal(null)).toBe('NULL')
  })

  test('a quoted name is one token with the same name', () => {
    fc.assert(
      fc.property(hostile, value => {
        expect(lexed(quotedName(value), true)).toEqual([{ kind: 'name', value }])
      }),
    )
  })

  test('names and values do not change the SQL outside the quotes', () => {
    const outside = (name: string, value: string) => {
      const column = { name, type: 'text', isKey: true, isNullable: false, isGenerated: false, hasDefault: false }
      const table: Table = { schema: name, name, kind: 'r', rows: undefined, columns: [column] }
      const values = new Map([[name, value]])
      const edits: Edit[] = [
        { id: '1', table, kind: 'insert', values },
        { id: '2', table, kind: 'update', key: values, version: value, values },
        { id: '3', table, kind: 'delete', key: values, version: value },
      ]
      return lexed(transactionOf(edits), true)
        .filter(({ kind }) => kind === 'other')
        .map(token => token.value)
        .join('')
    }
    const expected = outside('a', 'b')
    fc.assert(
      fc.property(hostile, hostile, (name, value) => {
        expect(outside(name, value)).toBe(expected)
      }),
    )
  })
})

describe('entered values', () => {
  test.each([
    ['a', 'a', undefined],
    ['a', 'b', 'b'],
    ['a', null, null],
    [null, null, undefined],
    [null, '', ''],
    ['1\r\n2', '1\n2', undefined],
    ['1\r\n2', '1\n3', '1\r\n3'],
    ['1\n2', '1\n3', '1\n3'],
  ])('the value %j and the input %j give the new value %j', (before, entered, changed) =>
    expect(changedValue(before, entered)).toBe(changed),
  )
})

describe('in Postgres', () => {
  let database: SqlDatabase
  let table: Table
  beforeAll(async () => {
    database = await startSqlDatabase()
    await database.as(
      'app',
      `CREATE TABLE "it's ""odd""" ("id; --" int PRIMARY KEY, "na'me" text, doc json, up text GENERATED ALWAYS AS (upper("na'me")) STORED);
       CREATE TABLE keyless (a int); CREATE VIEW seen AS SELECT 1 AS a;
       CREATE TABLE parts (a int, b char(4) DEFAULT 'x', PRIMARY KEY (b, a)) PARTITION BY LIST (a);
       CREATE TABLE part1 PARTITION OF parts DEFAULT`,
    )
    table = await tableOf(`it's "odd"`)
  })
  afterAll(() => database?.stop())
  beforeEach(async () => {
    await database.as(
      'app',
      `TRUNCATE "it's ""odd""", parts; INSERT INTO "it's ""odd""" VALUES (1, 'one', '{"a": 1}'), (2, NULL, NULL)`,
    )
  })

  async function tableOf(name: string): Promise<Table> {
    const found = tablesIn(await database.rows(tablesStatement)).find(one => one.name === name)
    if (found === undefined) throw new Error('no such table')
    return found
  }

  const all = { filters: [], sort: undefined, limit: 100, offset: 0 }
  const read = async (of: Table) => {
    const { text, parameters } = rowsStatement(of, all)
    return database.rows(text, parameters.length === 0 ? {} : { parameters })
  }

  async function commit(edits: readonly Edit[]) {
    const { lines } = await database.sql({ text: transactionOf(edits), mode: 'write', max_rows: 10 })
    const { results, apply } = createResults()
    for (const line of lines) apply(line)
    return outcomeOf(results, edits.length)
  }

  const update = (of: Table, row: readonly (string | null)[], values: Record<string, string | null>): Edit => {
    const key = keyOf(of, row)
    return { id: idOfRow(of, key), table: of, kind: 'update', key, version: row.at(-1) ?? '', values: mapOf(values) }
  }
  const mapOf = (values: Record<string, string | null>) => new Map(Object.entries(values))

  test('only tables with a primary key can be edited, including partitioned tables', async () => {
    const editable = await Promise.all(
      ['it\'s "odd"', 'keyless', 'seen', 'parts'].map(async name => isEditable(await tableOf(name))),
    )
    expect(editable).toEqual([true, false, false, true])
    expect(table.columns.map(({ isKey, isGenerated }) => [isKey, isGenerated])).toEqual([
      [true, false],
      [false, false],
      [false, false],
      [false, true],
    ])
  })

  test('rows are inserted, updated and deleted in one transaction', async () => {
    const [first = [], second = []] = await read(table)
    const values = mapOf({ 'id; --': '3', "na'me": "it's \\ $$" })
    const edits: Edit[] = [
      update(table, first, { "na'me": null, doc: '[]' }),
      { ...{ id: 'x', table, kind: 'delete' }, key: keyOf(table, second), version: second.at(-1) ?? '' },
      { id: 'new', table, kind: 'insert', values },
    ]
    expect(await commit(edits)).toEqual({ kind: 'committed' })
    expect((await read(table)).map(row => row.slice(0, -1))).toEqual([
      ['1', null, '[]', null],
      ['3', "it's \\ $$", null, "IT'S \\ $$"],
    ])
  })

  test('if another client has changed a row, the commit reports a conflict and changes nothing', async () => {
    const [first = [], second = []] = await read(table)
    await database.as('app', `UPDATE "it's ""odd""" SET doc = '2' WHERE "id; --" = 2`)
    const edits = [update(table, first, { "na'me": 'mine' }), update(table, second, { "na'me": 'mine' })]
    expect(await commit(edits)).toEqual({ kind: 'conflict', index: 1 })
    expect((await read(table)).map(row => row[1])).toEqual(['one', null])
    await database.as('app', `DELETE FROM "it's ""odd""" WHERE "id; --" = 1`)
    expect(await commit([update(table, first, { "na'me": 'mine' })])).toEqual({ kind: 'conflict', index: 0 })
  })

  test('if Postgres refuses a change, the commit reports the error and changes nothing', async () => {
    const [first = []] = await read(table)
    const edits: Edit[] = [
      update(table, first, { "na'me": 'mine' }),
      { id: 'new', table, kind: 'insert', values: mapOf({ 'id; --': '2' }) },
    ]
    expect(await commit(edits)).toMatchObject({ kind: 'failed', index: 1, message: /duplicate key/ })
    expect((await read(table))[0]?.[1]).toBe('one')
    const wrong: Edit = { id: 'new', table, kind: 'insert', values: mapOf({ 'id; --': 'not one row but 0' }) }
    expect(await commit([wrong])).toMatchObject({ kind: 'failed', index: 0 })
  })

  test('a row with a default and a key of two columns is inserted and updated', async () => {
    const parts = await tableOf('parts')
    expect(await commit([{ id: 'new', table: parts, kind: 'insert', values: mapOf({ a: '1' }) }])).toEqual({
      kind: 'committed',
    })
    const [row = []] = await read(parts)
    expect(await commit([update(parts, row, { b: 'yy' })])).toEqual({ kind: 'committed' })
    expect((await read(parts))[0]?.slice(0, 2)).toEqual(['1', 'yy  '])
  })
})

test('a new change of a row replaces the earlier change', () => {
  const table: Table = { schema: 'public', name: 't', kind: 'r', rows: 1, columns: [] }
  const edit = (id: string, version: string): Edit => ({ id, table, kind: 'delete', key: new Map(), version })
  expect(withEdit([edit('a', '1'), edit('b', '1')], edit('a', '2'))).toEqual([edit('a', '2'), edit('b', '1')])
  expect(statementOf({ id: 'a', table, kind: 'insert', values: new Map() })).toBe(
    'INSERT INTO "public"."t" DEFAULT VALUES',
  )
})

test('without a result of COMMIT, the outcome is unknown unless an earlier statement failed', () => {
  const complete = { command: 'UPDATE', rowCount: 1, ms: 1, more: false }
  const result = { columns: undefined, rows: [], notices: [], complete, fault: undefined }
  expect(outcomeOf([{ ...result, statement: 1 }], 1)).toEqual({ kind: 'unknown' })
  const fault = { message: 'gone', sqlstate: '57P01' }
  expect(outcomeOf([{ ...result, statement: 2, complete: undefined, fault }], 1)).toEqual({ kind: 'unknown' })
  expect(outcomeOf([{ ...result, statement: 1, complete: undefined, fault }], 1)).toMatchObject({ kind: 'failed' })
  const rolledBack = { ...complete, command: 'ROLLBACK' }
  expect(outcomeOf([{ ...result, statement: 2, complete: rolledBack }], 1)).toEqual({ kind: 'unknown' })
})
