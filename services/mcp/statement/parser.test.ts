/** Parses one statement: what counts as one statement, and that no text breaks the parser for the next text. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { analyse } from './analysis.ts'
import { isExpression } from './expression.ts'
import { maximumStatement, parseStatement, warmParser } from './parser.ts'
import { StatementRefusal } from './refusal.ts'

const kindOf = (text: string) =>
  parseStatement(text)
    .then(parsed => analyse(parsed).class)
    .catch((error: unknown) => (error instanceof StatementRefusal ? error.kind : error))

test('returns the statement without surrounding comments and semicolons', async () => {
  warmParser()
  const texts = {
    ' SELECT 1 ; ': 'SELECT 1',
    ';; SELECT 1;;': 'SELECT 1',
    'SELECT \'é;\', ü FROM "täble"; -- the end': 'SELECT \'é;\', ü FROM "täble"',
    'SELECT 1 -- x ;': 'SELECT 1 -- x ;',
  }
  for (const [text, alone] of Object.entries(texts))
    expect((await parseStatement(text)).text.replace(/^;+ ?/, '')).toBe(alone)
})

test('reports the error and its position', async () => {
  await expect(parseStatement('SELECT 1 FRM x y')).rejects.toMatchObject({ kind: 'syntax', position: 13 })
  expect(await kindOf('SELECT 1; SELECT 2')).toBe('several statements')
  for (const text of ['', '  ', ';', '-- x', '/* x */', "SELECT 'x", 'SELECT \0'])
    expect(await kindOf(text)).toBe('syntax')
  expect(await kindOf(`SELECT '${'x'.repeat(maximumStatement)}'`)).toBe('too large')
})

test('refuses half of a surrogate pair, because the parser would miss the end of the text', async () => {
  for (const half of ['\ud800', '\udc00']) {
    expect(await kindOf(`SELECT '${`${half}字`.repeat(20)}', pg_read_file('PG_VERSION')`)).toBe('syntax')
    expect(await isExpression(`'${half}' = 'x'`)).toBe(false)
  }
})

test('parses every text to its end', async () => {
  const quoted = fc.string({ unit: 'binary' }).map(text => `'${text.replaceAll('\0', '').replaceAll("'", "''")}'`)
  await fc.assert(
    fc.asyncProperty(quoted, async literal => {
      const parsed = await parseStatement(`SELECT ${literal}, seen()`)
      expect(analyse(parsed).calls.map(({ name }) => name)).toEqual(['seen'])
    }),
  )
})

test('refuses deep nesting, and parses concurrent and later statements', async () => {
  const deep = [
    `SELECT ${'1+'.repeat(25_000)}1`,
    `SELECT ${'('.repeat(25_000)}1${')'.repeat(25_000)}`,
    `SELECT ${'f('.repeat(15_000)}1${')'.repeat(15_000)}`,
    `SELECT ${'NOT '.repeat(15_000)}true`,
    `SELECT ${'(SELECT '.repeat(3_000)}1${')'.repeat(3_000)}`,
    `SELECT 1${'::int'.repeat(12_000)}`,
    `SELECT 1${' UNION SELECT 1'.repeat(4_000)}`,
    `SELECT ${'1+'.repeat(1_000)}1`,
  ]
  for (let round = 0; round < 2; round++) {
    const kinds = await Promise.all(deep.flatMap(text => [kindOf(text), kindOf('SELECT a.b(1) FROM c')]))
    expect(kinds).toEqual(deep.flatMap(() => ['too large', 'select']))
  }
})

test('long lists do not count as nesting', async () => {
  expect(await kindOf(`SELECT 1 WHERE 1 IN (${'1,'.repeat(20_000)}1)`)).toBe('select')
  expect(await kindOf(`SELECT 1 WHERE ${'a = 1 OR '.repeat(3_000)}b = 1`)).toBe('select')
  expect(await kindOf(`VALUES ${'(1, 2),'.repeat(5_000)}(1, 2)`)).toBe('select')
})

test('every text results in a tree or a refusal', async () => {
  const words = fc.constantFrom(
    ...`SELECT FROM WHERE ( ) , ; -- /* */ ' " $$ $a$ E' U&' \\ 1 a.b :: int AS WITH x DELETE DROP TABLE \n ] [ CASE WHEN END é 😀 \u0001`.split(
      ' ',
    ),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(words, { maxLength: 30 }), async parts => {
      expect(typeof (await kindOf(parts.join(' ')))).toBe('string')
    }),
    { numRuns: 500 },
  )
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), async text => {
      expect(typeof (await kindOf(text))).toBe('string')
    }),
  )
})

test('text in a literal, a comment or a name is not a statement, but text after it can be one', async () => {
  const hidden = fc.string({ maxLength: 20 }).map(text => text.replaceAll('\0', ''))
  const hides: ((text: string) => string)[] = [
    text => `'${text.replaceAll("'", "''")}'`,
    text => `$q$${text.replaceAll('$', '')}$q$`,
    text => `1 /* ${text.replaceAll('*', '').replaceAll('/', '')} */`,
    text => `1 --${text.replaceAll(/[\r\n]/g, '')}\n`,
    text => `1 AS "x${text.replaceAll('"', '""')}"`,
  ]
  await fc.assert(
    fc.asyncProperty(hidden, fc.constantFrom(...hides), async (text, hide) => {
      const attack = `; DROP TABLE t; ${text}`
      expect(await kindOf(`SELECT ${hide(attack)}`)).toBe('select')
      expect(await kindOf(`SELECT ${hide(text)}; DROP TABLE t`)).toBe('several statements')
    }),
  )
})

test('a condition must be one expression', async () => {
  for (const text of [
    'a = 1',
    "b LIKE '%)%' -- x",
    'EXISTS (SELECT 1)',
    'a) OR (b',
    'NOT a',
    'x IS NULL /* ) */',
    'SELECT true',
  ])
    expect([text, await isExpression(text)]).toEqual([text, true])
  for (const text of [
    '',
    'a, b',
    'a) FROM x WHERE (b',
    'a) UNION (SELECT 1',
    'a) AS b, (c',
    'a); DROP TABLE t; --',
    'a) LIMIT (1',
    'a) ORDER BY (1',
    'a) INTO x FROM (b',
  ])
    expect([text, await isExpression(text)]).toEqual([text, false])
})

test('detects changes that affect every row', async () => {
  const unfiltered = async (text: string) => analyse(await parseStatement(text)).hasUnfiltered
  for (const text of [
    'DELETE FROM t',
    'UPDATE t SET a = 1',
    'DELETE FROM t WHERE true',
    "DELETE FROM t WHERE 'yes'::bool",
    'DELETE FROM t WHERE 1 = 1',
    'DELETE FROM t WHERE 1 < 2 AND NOT false',
    'DELETE FROM t USING u',
    'MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE',
    'DELETE FROM t WHERE (a = a)',
    'DELETE FROM t WHERE a = 1 OR true',
    'DELETE FROM t WHERE true AND 1=1',
    'WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM x',
  ])
    expect([text, await unfiltered(text)]).toEqual([text, true])
  for (const text of [
    'DELETE FROM t WHERE a = 1',
    'DELETE FROM t WHERE EXISTS (SELECT FROM u WHERE u.n = t.n)',
    'DELETE FROM t WHERE CURRENT OF c',
    'MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE',
    'DELETE FROM t WHERE a = 1 AND true',
    'DELETE FROM t WHERE a = b',
    'SELECT 1',
  ])
    expect([text, await unfiltered(text)]).toEqual([text, false])
})
