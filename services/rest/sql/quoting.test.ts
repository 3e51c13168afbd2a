/** Client input reaches SQL only as a quoted identifier or a parameter. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../postgres/quote.ts'
import type { SchemaCache } from '../../schema-cache/types.ts'
import { RestError } from '../errors/rest-error.ts'
import type { Plan } from '../plan/types.ts'
import { column, keys, parameter, routine, table, toOne } from '../testing/openapi.ts'
import { cacheOf, own, planned, type Sent, sampleCache } from '../testing/schema-cache.ts'
import { tokens } from '../testing/sql-tokens.ts'
import { render, type Statement } from './index.ts'
import { typeName } from './statement.ts'

/** All words of the service's statements, including types and functions of the catalog. */
const words = new Set(
  `all and any array as asc by case cast conflict default delete desc distinct do else end excluded explain false first
  from group ilike inner insert into is join last lateral left like limit not nothing null nulls offset on or order
  returning select set then true unknown update values variadic when where with recursive
  avg chr coalesce count current_setting json_agg json_array_elements json_build_object json_each_text
  json_object_keys json_strip_nulls json_to_record json_to_recordset jsonb_agg length array_agg max min nullif
  row_to_json set_config string_agg substr sum to_json to_jsonb to_tsvector to_tsquery plainto_tsquery
  phraseto_tsquery websearch_to_tsquery st_asgeojson
  analyze buffers format json settings text verbose wal
  bigint bit boolean bytea char character color date dec decimal double float int int4 int8 integer json jsonb
  numeric precision real regconfig smallint test time timestamp tsvector varying without xml zone
  body data each headers key keys location parts row rows rst_arguments rst_body rst_call rst_counted rst_element rst_head rst_one
  rst_record rst_rows pgrst_scalar rst_source rst_values status total updated value`
    .split(/\s+/)
    .filter(word => word !== ''),
)
const strings = new Set(
  ['', ',', '[]', 'null', '=', 'eq.', 'is.null', '0', 'new', 'type', 'FeatureCollection', 'features'].concat([
    'response.headers',
    'response.status',
    'rst.updated',
  ]),
)
const operators = new Set(
  '( ) , . [ ] :: := -> ->> || = <> < > <= >= ~ ~* @> <@ && << >> &< &> -|- @@ * + -'.split(' '),
)

/** A limit is digits: the parser has parsed it as a number. */
const isLimit = (found: readonly { text: string }[], index: number): boolean =>
  found[index - 1]?.text === 'LIMIT' && /^[0-9]{1,4}$/.test(found[index]?.text ?? '')

/** Unquoted tokens of a statement that the service did not write. */
function unexpectedTokens({ text, values }: Statement): string[] {
  const found = tokens(text)
  const used = new Set(found.flatMap(token => (token.kind === 'parameter' ? [token.text] : [])))
  const parameters = values.map((_, index) => `$${index + 1}`)
  return [
    ...found.flatMap((token, index) => {
      const isExpected = {
        identifier: !token.text.includes('\0'),
        string: strings.has(token.text.slice(1, -1)),
        parameter: parameters.includes(token.text),
        word: words.has(token.text.toLowerCase()),
        number: ['0', '1', '2', '10'].includes(token.text) || isLimit(found, index),
        operator: operators.has(token.text),
        foreign: false,
      }[token.kind]
      return isExpected ? [] : [`${token.kind} ${token.text}`]
    }),
    ...parameters.filter(one => !used.has(one)).map(one => `${one} is not used`),
  ]
}

function statementsOf(plan: Plan): Statement[] {
  const { main, estimate } = render(plan)
  return estimate === undefined ? [main] : [main, estimate]
}

const isUnbalanced = (list: readonly { text: string }[]) => {
  let depth = 0
  for (const { text } of list) {
    depth += text === '(' ? 1 : text === ')' ? -1 : 0
    if (depth < 0) return true
  }
  return depth !== 0
}

/**
 * Unquoted text in the request's statements that does not come from the service. Undefined if the request is refused.
 */
function leaks(line: string, sent: Sent, cache: SchemaCache): string[] | undefined {
  let plan: Plan
  try {
    plan = planned(line, sent, cache)
  } catch (error) {
    if (error instanceof RestError) return undefined
    throw error
  }
  return statementsOf(plan).flatMap(statement => [
    ...unexpectedTokens(statement),
    ...(isUnbalanced(tokens(statement.text).filter(({ kind }) => kind === 'operator')) ? ['parentheses'] : []),
  ])
}

const hostile = [
  ...['"', '""', "'", "''", '\\', '\\"', "\\'", '`', ';', '--', '/*', '*/', '$$', '$1', '$a$', '$1$', ':x', '::text'],
  ...[')', '(', '))', ',', '.', '*', '@', '|', '||', '{', '}', '[]', '[', '%', '%22', '?', '#', '&', '=', '!', '\n'],
  ...['\r', '\t', '\u2028', '\u00a0', '\ufeff', '\uff02', '\u201c', '\u02ba', '\ud83d\ude00', '\u0000', 'İ', '\u017f'],
  ...[
    'zap',
    'zap zip',
    'a"; drop table zap; --',
    "' or zap is null --",
    '"."',
    '") zap ("',
    'E',
    "E'\\''",
    'U&"\\0022"',
  ],
  ...['pg_sleep(9)', 'null', 'excluded', 'rst_source', 'rst_rows', 'text', 'zap[]', 'zap::text', '1e9', '-1', '0x0'],
  ...['__proto__', 'constructor', 'zap(9)', 'not.zap', 'count()', 'zap->zip', '->>', '-', 'z'.repeat(70)],
]
const fragment = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.array(fc.constantFrom(...hostile), { minLength: 1, maxLength: 3 }).map(some => some.join('')),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }) },
)
const quote = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`
/** A hostile name. Some names are outside the grammar. */
const name = fc.oneof(
  { weight: 5, arbitrary: fragment.map(quote) },
  { weight: 3, arbitrary: fc.constantFrom('id', 'name', 'data', 'color', 'search', 'tags') },
  { weight: 2, arbitrary: fragment.map(text => text.replace(/[^\p{L}\p{N}_ $]/gu, '') || 'x') },
  { weight: 1, arbitrary: fragment },
)
const maybe = (one: fc.Arbitrary<string>) => fc.oneof(fc.constant(''), one)
const joined = (...parts: fc.Arbitrary<string>[]) => fc.tuple(...parts).map(list => list.join(''))
const list = (one: fc.Arbitrary<string>, least = 1) =>
  fc.array(one, { minLength: least, maxLength: 3 }).map(some => some.join(','))

const path = maybe(
  fc
    .array(joined(fc.constantFrom('->', '->>'), fc.oneof(name, fc.constantFrom('0', '-1', '"0"'))), { maxLength: 3 })
    .map(steps => steps.join('')),
)
const type = fc.oneof(
  fc.constantFrom('text', 'INT', 'double  precision', 'text[]', 'zap', 'Zap Zip[]', '[]', 'varchar', 'select', 'time'),
  fragment.map(text => text.replace(/[^\p{L}\p{N}\p{M}_ $[\]]/gu, '') || 'x'),
  fragment,
)
const cast = maybe(type.map(text => `::${text}`))
const alias = maybe(name.map(text => `${text}:`))
const aggregate = maybe(joined(fc.constantFrom('.sum()', '.max()', '.count()'), cast))
const fieldItem = joined(alias, fc.oneof(name, fc.constant('count()')), path, cast, aggregate)
const hint = maybe(fc.oneof(name, fc.constantFrom('inner', 'left', 'users_projects')).map(text => `!${text}`))
const target = fc.constantFrom('clients', 'tasks', 'users', 'newest_task', 'client_id', 'sub"lings', 'zap')
const embedded = (below: fc.Arbitrary<string>) =>
  joined(maybe(fc.constant('...')), alias, target, hint, fc.constant('('), below, fc.constant(')'))
const leaf = list(fc.oneof(fc.constant('*'), fieldItem), 0)
const select = list(
  fc.oneof(
    { weight: 3, arbitrary: fieldItem },
    fc.constant('*'),
    embedded(list(fc.oneof(fieldItem, embedded(leaf)), 0)),
  ),
)

const operator = fc.oneof(
  fc.constantFrom('eq', 'neq', 'gt', 'like', 'ilike', 'match', 'imatch', 'cs', 'cd', 'ov', 'adj', 'nxl', 'isdistinct'),
  fc.constantFrom('eq(any)', 'like(all)', 'fts', 'wfts', 'plfts(english)'),
  fragment.map(text => `phfts(${text.replace(/[^\p{L}\p{N}_ $-]/gu, '') || 'x'})`),
  fragment.map(text => `fts(${text})`),
)
const value = fc.oneof(fragment, fragment.map(quote))
const operation = joined(
  maybe(fc.constant('not.')),
  fc.oneof(
    joined(operator, fc.constant('.'), value),
    list(value).map(values => `in.(${values})`),
    fc.constantFrom('is.null', 'is.not_null', 'is.true', 'in.()'),
  ),
)
const member = joined(name, path, fc.constant('.'), operation)
const group = joined(fc.constantFrom('and(', 'or(', 'not.and('), list(member), fc.constant(')'))
const logic = list(fc.oneof(member, group)).map(members => `(${members})`)
const term = joined(
  fc.oneof(joined(name, path), joined(target, fc.constant('('), name, path, fc.constant(')'))),
  fc.constantFrom('', '.asc', '.desc', '.nullsfirst', '.desc.nullslast'),
)
const order = list(term)

const key = (word: string) => maybe(fc.oneof(target, name).map(prefix => `${prefix}.`)).map(prefix => prefix + word)
const query = fc
  .array(
    fc.oneof(
      fc.tuple(fc.constant('select'), select),
      fc.tuple(joined(name, path), operation),
      fc.tuple(joined(target, fc.constant('.'), name, path), operation),
      fc.tuple(key('and'), logic),
      fc.tuple(key('not.or'), logic),
      fc.tuple(key('order'), order),
      fc.tuple(key('limit'), fc.oneof(fragment, fc.constantFrom('1', '0', '99'))),
      fc.tuple(key('offset'), fc.oneof(fragment, fc.constantFrom('1', '0'))),
      fc.tuple(fc.constant('columns'), list(name)),
      fc.tuple(fc.constant('on_conflict'), list(name)),
      fc.tuple(fc.constantFrom('a', 'name', 'words', 'b'), value),
    ),
    { maxLength: 4 },
  )
  .map(pairs => pairs.map(pair => pair.map(text => encodeURIComponent(text.toWellFormed())).join('=')).join('&'))

const headers = fc.record({
  prefer: fc.option(
    fc
      .array(
        fc.oneof(
          fragment,
          fc.constantFrom(
            'count=exact',
            'count=planned',
            'count=estimated',
            'return=representation',
            'missing=default',
          ),
          fc.constantFrom('return=headers-only', 'resolution=merge-duplicates', 'resolution=ignore-duplicates'),
        ),
        { maxLength: 3 },
      )
      .map(some => some.join()),
    { nil: undefined },
  ),
  accept: fc.option(
    fc.oneof(
      fc.constantFrom(
        'text/csv',
        'application/vnd.pgrst.object+json;nulls=stripped',
        'text/xml',
        'application/geo+json',
      ),
      fragment.map(text => `application/vnd.pgrst.plan+json; options=analyze|${text}; for="${text}", */*`),
      fc.constant('application/x-any'),
    ),
    { nil: undefined },
  ),
  range: fc.option(fc.oneof(fragment, fc.constant('1-2')), { nil: undefined }),
})
const record = fc.oneof(
  fc.dictionary(fc.constantFrom('id', 'name', 'color', 'data'), fragment),
  fc.dictionary(fragment, fragment, { maxKeys: 2 }),
)
const body = fc.oneof(
  record.map(one => JSON.stringify(one)),
  record.map(one => JSON.stringify([one, one])),
  fragment,
)

/** Runs requests and returns how many of them resulted in a statement. */
function share(
  line: fc.Arbitrary<string>,
  runs: number,
  names: fc.Arbitrary<[string, string, string]> = fc.constant(['', '', '']),
  cache: (...names: [string, string, string]) => SchemaCache = () => sampleCache,
): number {
  let [count, tried] = [0, 0]
  fc.assert(
    fc.property(line, query, headers, body, names, (start, all, head, text, known) => {
      const found = leaks(`${start}?${all}`, { headers: head, body: text }, cache(...known))
      tried++
      if (found !== undefined) count++
      expect(found ?? []).toEqual([])
    }),
    { numRuns: runs },
  )
  return count / tried
}

const lines = (...all: string[]) => fc.constantFrom(...all)

describe('client text does not become SQL', { timeout: 60_000 }, () => {
  test('in a read', () => {
    expect(share(lines('GET /projects', 'HEAD /projects', 'GET /clients', 'GET /tasks'), 12_000)).toBeGreaterThan(0.1)
  })

  test('in a write', () => {
    const table = '/projects'
    expect(share(lines(`POST ${table}`, `PATCH ${table}`, `DELETE ${table}`, `PUT ${table}`), 8_000)).toBeGreaterThan(
      0.1,
    )
  })

  test('in a call', () => {
    const all = lines('GET /rpc/find', 'POST /rpc/find', 'GET /rpc/add', 'GET /rpc/join', 'POST /rpc/take_json')
    expect(share(all, 8_000)).toBeGreaterThan(0.05)
  })

  test('if the catalog itself contains hostile names', () => {
    const hostileName = fragment.filter(text => !text.includes('\0') && text !== '')
    const cache = (first: string, second: string, third: string) => {
      const columns = [column('id', 'integer'), column('name', 'text'), column(first, 'text'), column(second, 'jsonb')]
      return cacheOf({
        tables: [table('projects', columns, { primaryKey: [first] }), table('sub"lings', columns)],
        relationships: [
          toOne('projects', 'sub"lings', [[first, second]]),
          keys('projects', 'users', {
            kind: 'many-to-many',
            junction: {
              ...{ table: own(third), sourceConstraint: first, targetConstraint: second },
              ...{ sourceColumns: [['id', third]], targetColumns: [[first, second]] },
            },
          }),
        ],
        routines: [routine('find', [parameter(first, 'text', { required: false })])],
      })
    }
    const names = fc.tuple(hostileName, hostileName, hostileName)
    const all = lines('GET /projects', 'GET /projects', 'POST /projects', 'PATCH /projects', 'GET /rpc/find')
    expect(share(all, 6_000, names, cache)).toBeGreaterThan(0.1)
  })
})

describe('the check', () => {
  const plain = (text: string): Statement => ({ text, values: [] })

  test.each([
    'SELECT zap',
    "SELECT 'zap'",
    'SELECT 1; SELECT 1',
    'SELECT 1 -- x',
    '/* x */',
    '$$x$$',
    "E''",
    'SELECT $1',
    '"',
    '`',
    '7',
  ])('detects %s', text => {
    expect(unexpectedTokens(plain(text))).not.toEqual([])
  })

  test('accepts quoted names and parameters', () => {
    expect(unexpectedTokens({ text: 'SELECT "zap; --"."a""b" = $1', values: ['x'] })).toEqual([])
    expect(unexpectedTokens({ text: 'SELECT 1', values: ['x'] })).toEqual(['$1 is not used'])
  })
})

test('an identifier is one token, whatever the name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1 }), text => {
      if (text.includes('\0')) expect(() => quoteIdentifier(text)).toThrow('NUL')
      else expect(tokens(quoteIdentifier(text))).toEqual([{ kind: 'identifier', text: quoteIdentifier(text) }])
    }),
  )
})

test.each([
  ['text', '"text"'],
  ['INTEGER', 'integer'],
  ['double   precision[]', 'double precision[]'],
  ['My Type', '"my type"'],
  ['int [] []', 'int[]'],
  ['timestamp with time zone', 'timestamp with time zone'],
  ['float', 'float'],
  ['float8', '"float8"'],
  ['a"b', '"a""b"'],
  ['constructor', '"constructor"'],
])('the type %j is written %s', (declared, written) => {
  expect(typeName(declared)).toBe(written)
})
