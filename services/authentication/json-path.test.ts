import fc from 'fast-check'
import { expect, test } from 'vitest'
import { followRolePath } from '../../values/role-path.ts'
import { parseRolePath } from './role-path.ts'

const claims = {
  role: 'author',
  groups: ['other', 'web_author', 'web_admin', 7],
  'https://example.com/role': { key: 'signed' },
  "it's": 'quoted',
  realm: { roles: [{ name: 'a', level: 1 }, { name: 'b', level: 3 }, { name: 'c' }], wanted: 'b' },
}

// The examples of RFC 9535 (sections 2.3 and 2.5), with claims of the same shape.
test.each([
  ['$.role', 'author'],
  ["$['role']", 'author'],
  ['$["https://example.com/role"].key', 'signed'],
  ["$['it\\'s']", 'quoted'],
  ['$["it\\u0027s"]', 'quoted'],
  ['$.groups[1]', 'web_author'],
  ['$.groups[-1]', 7],
  ['$.groups[9]', undefined],
  ['$.groups[*]', 'other'],
  ['$.groups[1:3]', 'web_author'],
  ['$.groups[::-1]', 7],
  ['$.groups[-2:0:-1]', 'web_admin'],
  ['$.groups[1:2:0]', undefined],
  ['$.groups[5, 2]', 'web_admin'],
  ['$.missing', undefined],
  ['$.role.length', undefined],
  ['$.toString', undefined],
  ['$.__proto__', undefined],
  ['$..name', 'a'],
  ['$..[?@.level > 2].name', 'b'],
  ["$.groups[?@ == 'web_admin']", 'web_admin'],
  ["$.groups[?(@ >= 'p')]", 'web_author'],
  ['$.realm.roles[?@.name == $.realm.wanted].level', 3],
  ['$.realm.roles[?!@.level].name', 'c'],
  ["$.realm.roles[?@.level && @.name != 'a'].name", 'b'],
  ["$.realm.roles[?@.level > 5 || (@.name == 'c')].name", 'c'],
  ['$.realm.roles[?@.level < 3].name', 'a'],
  ['$.realm.roles[?@.level == @.nothing].name', 'c'],
  ['$.realm[?@[0].level == 1][0].name', 'a'],
  ['$', claims],
])('%s selects %j', (path, selected) => {
  expect(followRolePath(parseRolePath(path), claims)).toEqual(selected)
})

test.each([
  ['$role', 2, '".", "[" or the end'],
  ['$.', 3, 'a name'],
  ['$.role ', 7, '".", "[" or the end'],
  ['$[role]', 3, 'a quoted name'],
  ['$[01]', 4, '"]"'],
  ['$.a[?@.b == ]', 13, '"@", "$"'],
  ['$.a[?length(@) > 2]', 6, '"@", "$"'],
  ['$.a[?@.* == 1]', 14, 'a path to one value'],
  ["$.a[?'x']", 9, 'a comparison'],
  ['$["\\x"]', 7, 'a valid JSON escape'],
  [`$.a[?${'('.repeat(40)}`, 38, 'at most 32 nested tests'],
])('%s is refused at character %i: expected %s', (path, at, expected) => {
  expect(() => parseRolePath(path)).toThrow(new RegExp(`expected .*at character ${at} of `))
  expect(() => parseRolePath(path)).toThrow(expected)
})

test('any text and any claims give a result or a syntax error', () => {
  const piece = fc.constantFrom(
    '$',
    '.',
    '..',
    '[',
    ']',
    '*',
    '?',
    '@',
    '(',
    ')',
    "'a'",
    '"b"',
    '1',
    '-1',
    ':',
    '==',
    '&&',
    '!',
    'a',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.jsonValue(), (pieces, value) => {
      try {
        followRolePath(parseRolePath(`$${pieces.join('')}`), value)
      } catch (error) {
        expect(String(error)).toContain('expected')
      }
    }),
  )
})
