/** The service parses any client input or refuses it with a RestError, in limited time. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RequestHead } from '../../http/message.ts'
import { cpuTimeOf } from '../../testing/cpu-time.ts'
import { RestError } from '../errors/rest-error.ts'
import { payloadReader } from './payload.ts'
import { parseRequest } from './request.ts'

type Sent = RequestHead & { readonly body: Buffer }

const rules = { schemas: ['api'], rootFunction: undefined, openApiDisabled: false, timeZones: new Set(['UTC']) }
const plain: Sent = { method: 'GET', path: '/a', query: '', headers: {}, address: '', body: Buffer.from('{}') }

function attempt(sent: Partial<Sent>): 'parsed' | string {
  try {
    const { body, ...head } = { ...plain, ...sent }
    const { body: form } = parseRequest(head, rules)
    if (form !== undefined) {
      const reader = payloadReader(form)
      reader.push(body)
      reader.end()
    }
    return 'parsed'
  } catch (error) {
    if (error instanceof RestError && error.status >= 400 && error.status < 500) return error.code
    throw error
  }
}

/** Pieces of the grammar in any order, between arbitrary characters. */
const piece = fc.oneof(
  fc.constantFrom(
    ...['select', 'order', 'limit', 'offset', 'columns', 'on_conflict', 'and', 'or', 'not', 'a', 'b.c', 'count()'],
    ...['=', '&', '.', ',', ':', '::', '->', '->>', '(', ')', '!', '!inner', '...', '*', '"', '\\', '-', '{', '}', ' '],
    ...['eq.', 'in.(', 'is.null', 'fts(', '(any)', 'not.', 'isdistinct.', '.sum()', '.desc', '.nullslast', '0', '-1'],
    ...['%', '%2', '%22', '%00', '%ff', '%E4', '+', '#', '?', ';', "'", '--', '/*', '$1', '\0', '\ud800', 'ä', '😀'],
  ),
  fc.string({ unit: 'binary', maxLength: 4 }),
)
const text = fc.array(piece, { maxLength: 40 }).map(pieces => pieces.join(''))
const method = fc.constantFrom('GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS', 'BREW')
const path = fc.oneof(
  fc.constantFrom('/a', '/rpc/f', '/'),
  text.map(end => `/${end}`),
)
const key = fc.constantFrom(
  'select',
  'order',
  'a.order',
  'columns',
  'on_conflict',
  'and',
  'a.not.or',
  'limit',
  'a',
  'b.c',
)
const query = fc.oneof(
  text,
  fc
    .array(
      fc.tuple(key, text).map(([name, value]) => `${name}=${value}`),
      { maxLength: 4 },
    )
    .map(list => list.join('&')), // One query string uses many grammars.
)
const mediaType = fc.constantFrom(
  ...['application/json', 'text/csv', 'application/x-www-form-urlencoded', 'text/plain', 'application/octet-stream'],
  'application/vnd.pgrst.plan+json; for="',
)
const header = fc.option(
  fc.oneof(
    mediaType,
    text,
    fc.tuple(mediaType, text).map(parts => parts.join(';')),
  ),
  {
    nil: undefined,
  },
)
const preference = fc.oneof(
  fc.constantFrom('handling=strict', 'return=minimal', 'max-affected=1', 'timezone=UTC', 'hasOwnProperty=x'),
  text,
)
const headers = fc.record({
  prefer: fc.option(
    fc.array(preference, { maxLength: 4 }).map(list => list.join(',')),
    { nil: undefined },
  ),
  accept: header,
  'content-type': header,
  range: fc.option(fc.oneof(text, fc.constantFrom('0-', '5-4', 'items=1-2')), { nil: undefined }),
  'accept-profile': fc.option(text, { nil: undefined }),
  'content-profile': fc.option(text, { nil: undefined }),
})
const body = fc.oneof(
  fc.uint8Array({ maxLength: 60 }).map(bytes => Buffer.from(bytes)),
  fc.json().map(json => Buffer.from(json)),
  text.map(one => Buffer.from(one)),
)

test('the service parses or refuses any request', () => {
  const seen = new Set<string>()
  fc.assert(
    fc.property(fc.record({ method, path, query, headers, body }), request => {
      seen.add(attempt(request))
    }),
    { numRuns: 20_000 },
  )
  // Proves that the generated requests reach every stage, not only the first check.
  expect([...seen]).toEqual(
    expect.arrayContaining(['parsed', 'RST100', 'RST102', 'RST106', 'RST107', 'RST117', 'RST125']),
  )
})

describe('the service parses or refuses a long text in time:', () => {
  const length = 200_000
  const prefixes = ['', 'a=', 'a=eq.', 'a=in.(', 'select=', 'select=a->', 'order=', 'and=(', 'and=(a.eq.', 'columns=']
  const units = [
    ...[
      'a',
      'a.',
      'a,',
      'a-',
      '-',
      '.',
      ',',
      ' ',
      '(',
      ')',
      '"',
      '""',
      '"a",',
      '\\',
      '"\\',
      '{',
      '{a,',
      '{}',
      '->',
      'a->',
    ],
    ...['a(', 'a(),', 'a:', '::', 'a::b,', '!', 'a!', '...', 'and(', 'and(a.eq.1,', 'not.', 'a.not.', 'a.and.', 'in.('],
    ...['%', '%e4', '%F0%9F%98%80', '+', '&', '&&a', '=', '\u00e4', '"a"b,', 'a.eq."x",', 'a.in.(1,', '0', 'count(),'],
  ]
  const pairs = prefixes.flatMap(prefix => units.map(unit => [prefix, unit] as const))

  // Measures CPU time, because wall time depends on the machine's load.
  test('a text of one repeated piece', { timeout: 600_000 }, () => {
    const slow = pairs.flatMap(([prefix, unit]) => {
      const repeated = unit.repeat(length / unit.length)
      const spent = cpuTimeOf(() => {
        attempt({ query: prefix + repeated })
        attempt({ query: `${prefix}${repeated}"` })
      })
      // At this length, quadratic time is many seconds. Linear time is some hundredths of a second.
      return spent > 2_000_000 ? [`${prefix}${unit}: ${spent / 1_000} ms`] : []
    })
    expect(slow).toEqual([])
  })

  test('a text in a header, a path or a body', () => {
    for (const unit of [
      ...units,
      '0-',
      'a;',
      ';q=',
      'a/b;x="',
      'return=minimal,',
      '[',
      '{"a":',
      '"\n',
      '\r',
      '/',
      '%2F',
    ]) {
      const repeated = unit.repeat(length / unit.length)
      for (const name of ['prefer', 'accept', 'range', 'accept-profile']) attempt({ headers: { [name]: repeated } })
      attempt({ path: `/${repeated}` })
      for (const type of ['application/json', 'text/csv', 'application/x-www-form-urlencoded', repeated]) {
        attempt({ method: 'POST', body: Buffer.from(repeated), headers: { 'content-type': type } })
      }
    }
  })
})
