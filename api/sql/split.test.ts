/** Where statements end, and which statements a read accepts. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isRead, splitStatements } from './split.ts'

const texts = (text: string) => splitStatements(text).map(statement => statement.text)

describe('a text', () => {
  test.each([
    ['one statement', 'SELECT 1', ['SELECT 1']],
    ['two statements', ' SELECT 1 ; SELECT 2;', ['SELECT 1 ', 'SELECT 2']],
    ['only empty statements', ';; -- nothing\n ; /* ; */', []],
    ['a semicolon in a string', "SELECT ';', 'it''s;' ; SELECT 2", ["SELECT ';', 'it''s;' ", 'SELECT 2']],
    ['a backslash in a plain string', "SELECT '\\'; SELECT 2", ["SELECT '\\'", 'SELECT 2']],
    ['a backslash in an E string', "SELECT E'\\';', e'a'';' ; SELECT 2", ["SELECT E'\\';', e'a'';' ", 'SELECT 2']],
    ['a quoted name', 'SELECT ";""" ; SELECT 2', ['SELECT ";""" ', 'SELECT 2']],
    ['dollar quotes', 'DO $$ BEGIN; END $$; DO $a$ $$; $b$; $a$', ['DO $$ BEGIN; END $$', 'DO $a$ $$; $b$; $a$']],
    ['a dollar in a name', 'SELECT a$b$;SELECT c$b$', ['SELECT a$b$', 'SELECT c$b$']],
    ['parameters', 'SELECT $1;SELECT $2', ['SELECT $1', 'SELECT $2']],
    [
      'comments',
      'SELECT 1 -- ;\n + 2 /* ; /* ; */ ; */; SELECT 2',
      ['SELECT 1 -- ;\n + 2 /* ; /* ; */ ; */', 'SELECT 2'],
    ],
    ['a comment that a carriage return ends', '-- a\rSELECT 1', ['SELECT 1']],
    [
      'parentheses',
      'CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; SELECT 1); SELECT 2',
      ['CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; SELECT 1)', 'SELECT 2'],
    ],
    [
      'a routine',
      'CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3',
      ['CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END', 'SELECT 3'],
    ],
    ['a transaction', 'BEGIN; SELECT 1; END; SELECT 2', ['BEGIN', 'SELECT 1', 'END', 'SELECT 2']],
    ['an open string', "SELECT 'a; SELECT 2", ["SELECT 'a; SELECT 2"]],
    ['an open comment', 'SELECT 1; /* SELECT 2; ', ['SELECT 1']],
  ])('with %s is split into its statements', (_, text, expected) => {
    expect(texts(text)).toEqual(expected)
  })

  test('is split into statements whose positions count characters, not UTF-16 units', () => {
    expect(splitStatements("SELECT '\u{1f418}'; SELECT 2").map(({ start }) => start)).toEqual([0, 12])
  })

  test('is split without loss, except for semicolons, comments and spaces between statements', () => {
    const pieces = fc.constantFrom(
      "'",
      '"',
      '$$',
      '$a$',
      ';',
      '--',
      '/*',
      '*/',
      '\n',
      '\r',
      '(',
      ')',
      'E',
      '\\',
      'a',
      ' ',
      'BEGIN',
      'END',
      'é',
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), parts => {
        const characters = [...parts.join('')]
        let at = 0
        for (const statement of splitStatements(characters.join(''))) {
          expect(statement.start).toBeGreaterThanOrEqual(at)
          expect(splitStatements(characters.slice(at, statement.start).join(''))).toEqual([])
          at = statement.start + [...statement.text].length
          expect(characters.slice(statement.start, at).join('')).toBe(statement.text)
        }
        expect(splitStatements(characters.slice(at).join(''))).toEqual([])
      }),
    )
  })

  test('is split in linear time, even if it is hostile', () => {
    const before = process.cpuUsage()
    for (const part of ["'", "E'\\", '/*', '$a', '((', "''", '--\n', 'a$'])
      splitStatements(part.repeat(262_144 / part.length))
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1_000).toBeLessThan(5_000)
  })

  test('is refused as soon as it exceeds the maximum number of statements', () => {
    expect(splitStatements('x;;'.repeat(1_000), 1_000)).toHaveLength(1_000)
    expect(() => splitStatements('x;'.repeat(1_001), 1_000)).toThrow('at most 1000 statements')
    const before = process.cpuUsage()
    for (let n = 0; n < 30; n++) expect(() => splitStatements('x;'.repeat(32_768), 1_000)).toThrow()
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1_000).toBeLessThan(300)
  })

  test.each([
    ['an open string after a word of one letter', "a'; b", ["a'; b"]],
    ['an open E string', "E'a; b", ["E'a; b"]],
    ['a number before a dollar quote', 'SELECT 1$$;$$; x', ['SELECT 1$$;$$', 'x']],
    [
      'the words of a routine after the fourth word',
      'CREATE FUNCTION a b c d BEGIN x; END; y',
      ['CREATE FUNCTION a b c d BEGIN x; END', 'y'],
    ],
    [
      'BEGIN and END in a statement that creates no routine',
      'CREATE TABLE a BEGIN; END',
      ['CREATE TABLE a BEGIN', 'END'],
    ],
  ])('with %s is split into its statements', (_, text, expected) => expect(texts(text)).toEqual(expected))
})

describe('a read', () => {
  const accepts = (text: string) => splitStatements(text).every(isRead)
  test.each([
    'select 1',
    '/* a */ (SELECT 1) UNION SELECT 2',
    '-- a\r\n TABLE t',
    'VALUES (1)',
    'WITH a AS (SELECT 1) TABLE a',
    'SHOW all',
    'EXPLAIN SELECT 1',
  ])('accepts %s', text => {
    expect(accepts(text)).toBe(true)
  })
  test.each([
    'COMMIT',
    'commit and chain',
    '/* SELECT */ END',
    '--SELECT\rROLLBACK',
    'SELECT 1; ABORT',
    'SET ROLE app',
    'RESET ALL',
    'COPY t TO PROGRAM $$x$$',
    'BEGIN',
    'PREPARE TRANSACTION $$a$$',
    'DO $$ $$',
    'CALL p()',
    'EXECUTE a',
    'LISTEN a',
    'DISCARD ALL',
    '"SELECT" 1',
    'SELECTED',
    "U&'SELECT'",
  ])('refuses %s', text => {
    expect(accepts(text)).toBe(false)
  })
})
