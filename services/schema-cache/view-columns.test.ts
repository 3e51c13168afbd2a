import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuTimeOf } from '../testing/cpu-time.ts'
import { columnOrigins } from './view-columns.ts'

/** A name as Postgres writes it in a tree: a backslash escapes characters that would end a token. */
const token = (name: string) => name.replace(/[ \n\t(){}\\]/g, '\\$&')

type Entry = { expression?: string; name?: string; number: number; table?: number; column?: number; junk?: boolean }
const entry = ({ expression = '{VAR :varno 1}', name = 'x', number, table = 0, column = 0, junk = false }: Entry) =>
  `{TARGETENTRY :expr ${expression} :resno ${number} :resname ${token(name)} :ressortgroupref 0 ` +
  `:resorigtbl ${table} :resorigcol ${column} :resjunk ${junk}}`
const tree = (entries: readonly Entry[], before = '', after = '') =>
  `({QUERY :commandType 1 ${before}:targetList (${entries.map(entry).join(' ')}) :override 0${after} :stmt_len 0})`

const subquery = `{SUBLINK :subselect ${tree([{ number: 7, table: 8, column: 9 }]).slice(1, -1)}}`

describe('the origins of a view', () => {
  test('are the origins of columns that are plain copies', () => {
    const entries = [{ number: 1, table: 100, column: 3 }, { number: 2 }, { number: 3, table: 101, column: 1 }]
    expect(columnOrigins(tree(entries))).toEqual([
      { column: 1, relation: 100, relationColumn: 3 },
      { column: 3, relation: 101, relationColumn: 1 },
    ])
  })

  test('exclude columns used only for sorting', () => {
    const entries = [
      { number: 1, table: 100, column: 1 },
      { number: 2, table: 100, column: 2, junk: true },
    ]
    expect(columnOrigins(tree(entries))).toEqual([{ column: 1, relation: 100, relationColumn: 1 }])
  })

  test('exclude subqueries, in every position', () => {
    const inside = tree([{ number: 4, table: 5, column: 6 }]).slice(1, -1)
    const before = `:cteList ({COMMONTABLEEXPR :ctequery ${inside}}) :rtable ({RTE :subquery ${inside}}) `
    const after = ` :setOperations ${inside}`
    const entries = [
      { number: 1, expression: subquery },
      { number: 2, expression: `{FUNCEXPR :args (${subquery} ${subquery})}`, table: 100, column: 2 },
    ]
    expect(columnOrigins(tree(entries, before, after))).toEqual([{ column: 2, relation: 100, relationColumn: 2 }])
  })

  test('are found, whatever the names are', () => {
    const name = fc.array(
      fc.constantFrom(
        '{',
        '}',
        '(',
        ')',
        '\\',
        ' ',
        ':resno 9',
        ':targetList ',
        ':resjunk true',
        ':resorigtbl 7',
        'a',
        '\n',
      ),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.nat(5), fc.nat(5), fc.boolean()), { maxLength: 6 }), columns => {
        const entries = columns.map(([parts, table, column, junk], index) => ({
          ...{ name: parts.join(''), number: index + 1, table, column, junk },
        }))
        const alias = `:alias {ALIAS :aliasname ${token(columns.flatMap(([parts]) => parts).join(''))}} `
        expect(columnOrigins(tree(entries, `:rtable ({RTE ${alias}}) `))).toEqual(
          entries
            .filter(({ table, junk }) => table !== 0 && !junk)
            .map(({ number, table, column }) => ({ column: number, relation: table, relationColumn: column })),
        )
      }),
    )
  })
})

test('an invalid tree gives only numeric origins, in limited time', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '(',
    ')',
    '\\',
    ' ',
    ':targetList (',
    ':resno 1',
    ':resorigtbl 5 ',
    ':resorigcol x',
    '{QUERY',
    '<>',
  )
  fc.assert(
    fc.property(fc.array(piece), pieces => {
      expect(Array.isArray(columnOrigins(pieces.join('')))).toBe(true)
    }),
  )
})

test('a view with very many columns is read in limited time', () => {
  const entries = Array.from({ length: 1_600 }, (_, index) => ({
    ...{ number: index + 1, table: 1, column: index + 1, expression: `{CONST :constvalue ${'7 '.repeat(2_000)}}` },
  }))
  expect(cpuTimeOf(() => expect(columnOrigins(tree(entries))).toHaveLength(1_600))).toBeLessThan(2_000_000)
})
