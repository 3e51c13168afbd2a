import { describe, expect, test } from 'vitest'
import { contentType, contentTypeName, type MediaType, parseAccept } from './media.ts'

const json: MediaType = { kind: 'json' }
const named = (name: string): MediaType => ({ kind: 'named', name })

describe('Accept', () => {
  test.each<[string | undefined, MediaType[]]>([
    [undefined, [{ kind: 'any' }]],
    ['', []],
    [' , ', []],
    ['*/*', [{ kind: 'any' }]],
    ['application/json', [json]],
    ['Application/JSON; Charset=UTF-8', [json]],
    ['text/csv', [named('text/csv')]],
    ['TEXT/Unknown;a=b', [named('text/unknown')]],
    ['application/json;nulls=stripped', [json]],
    ['a/a, */*;q=0.1', [named('a/a'), { kind: 'any' }]],
    ['application/vnd.pgrst.array+json', [json]],
    ['application/vnd.pgrst.array+json;nulls=stripped', [{ kind: 'array', stripNulls: true }]],
    ['application/vnd.pgrst.array ; nulls = stripped', [{ kind: 'array', stripNulls: true }]],
    ['application/vnd.pgrst.object+json', [{ kind: 'object', stripNulls: false }]],
    ['application/vnd.pgrst.object', [{ kind: 'object', stripNulls: false }]],
    ['application/vnd.pgrst.object;nulls="stripped"', [{ kind: 'object', stripNulls: true }]],
    ['application/vnd.pgrst.object;nulls="stripped', [{ kind: 'object', stripNulls: true }]],
    ['application/vnd.pgrst.plan', [{ kind: 'plan', format: 'text', of: json, options: [] }]],
    ['application/vnd.pgrst.plan+json', [{ kind: 'plan', format: 'json', of: json, options: [] }]],
    [
      'application/vnd.pgrst.plan+text; for="text/csv"; options=wal|analyze|nonsense',
      [{ kind: 'plan', format: 'text', of: named('text/csv'), options: ['analyze', 'wal'] }],
    ],
    [
      'application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object+json; nulls=stripped"',
      [{ kind: 'plan', format: 'json', of: { kind: 'object', stripNulls: true }, options: [] }],
    ],
    [
      'application/vnd.pgrst.plan; options=wal|buffers|settings|verbose|analyze',
      [{ kind: 'plan', format: 'text', of: json, options: ['analyze', 'verbose', 'settings', 'buffers', 'wal'] }],
    ],
    ['application/vnd.pgrst.plan; for="a\\"b"', [{ kind: 'plan', format: 'text', of: named('a"b'), options: [] }]],
    ['application/vnd.pgrst.plan; form', [{ kind: 'plan', format: 'text', of: json, options: [] }]],
  ])('of %j', (header, types) => {
    expect(parseAccept(header)).toEqual(types)
  })

  test.each<[string, string[]]>([
    ['a/a, b/b', ['a/a', 'b/b']],
    ['a/a;q=0.1, b/b;q=0.9, c/c', ['c/c', 'b/b', 'a/a']],
    ['a/a;q=0.5;x=y, b/b; Q=0.6', ['b/b', 'a/a']],
    ['a/*, a/a', ['a/a', 'a/*']],
    ['*/*, a/*, a/a;q=0.9', ['a/*', '*/*', 'a/a']],
    ['a/a;q=wrong, b/b', ['a/a', 'b/b']],
    ['a/a;q=Infinity, b/b;q=Infinity', ['a/a', 'b/b']],
    [',, a/a ,', ['a/a']],
    ['a/a;x="b,c;q=0", d/d', ['a/a', 'd/d']],
    ['a/a;x="\\"b,c", d/d', ['a/a', 'd/d']],
    ['a/a;x=";q=0;", d/d', ['a/a', 'd/d']],
    ['a/a;x="\\";q=0;", d/d', ['a/a', 'd/d']],
    ['a/a;x="\\\\";q=0.5, d/d', ['d/d', 'a/a']],
    ['a/a;q=\\0.5, b/b;q=0.9', ['a/a', 'b/b']],
    ['d/d;q=0.5, a/a;x="b;q=0.1', ['a/a', 'd/d']],
    ['a/a;x="b, d/d', ['a/a']],
    ['a/a;x="b\\', ['a/a']],
  ])('%j, best first', (header, names) => {
    const name = (type: MediaType) => (type.kind === 'named' ? type.name : type.kind === 'any' ? '*/*' : type.kind)
    expect(parseAccept(header).map(name)).toEqual(names)
  })

  test('is parsed in limited time, up to a limit', () => {
    expect(parseAccept(Array(10_000).fill('a/a').join())).toHaveLength(100)
    for (const unit of ['"', '\\', '";', '"\\', 'a;', 'a;q=', ' ', 'a/a;x="', ',"']) parseAccept(unit.repeat(100_000))
  })
})

test.each([
  ['application/json', 'application/json'],
  [' Text/CSV ; charset=utf-8', 'text/csv'],
  ['', ''],
  ['"', '"'],
])('Content-Type %j is %j', (header, name) => {
  expect(contentTypeName(header)).toBe(name)
})

test.each<[MediaType, string]>([
  [json, 'application/json; charset=utf-8'],
  [{ kind: 'array', stripNulls: true }, 'application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8'],
  [{ kind: 'object', stripNulls: false }, 'application/vnd.pgrst.object+json; charset=utf-8'],
  [{ kind: 'object', stripNulls: true }, 'application/vnd.pgrst.object+json;nulls=stripped; charset=utf-8'],
  [{ kind: 'any' }, 'application/octet-stream'],
  ...['text/csv', 'text/plain', 'text/xml', 'application/openapi+json', 'application/geo+json'].map(
    (name): [MediaType, string] => [named(name), `${name}; charset=utf-8`],
  ),
  [named('image/png'), 'image/png'],
  [
    { kind: 'plan', format: 'text', of: json, options: ['analyze', 'wal'] },
    'application/vnd.pgrst.plan+text; for="application/json"; options=analyze|wal; charset=utf-8',
  ],
  [
    { kind: 'plan', format: 'json', of: { kind: 'object', stripNulls: true }, options: [] },
    'application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object+json"; charset=utf-8',
  ],
  [
    { kind: 'plan', format: 'json', of: { kind: 'any' }, options: [] },
    'application/vnd.pgrst.plan+json; for="*/*"; charset=utf-8',
  ],
])('%j is sent as %s', (type, header) => {
  expect(contentType(type)).toBe(header)
})
