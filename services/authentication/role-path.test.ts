import fc from 'fast-check'
import { expect, test } from 'vitest'
import { followRolePath } from '../../values/role-path.ts'
import { parseRolePath } from './role-path.ts'

const claims = {
  role: 'author',
  postgrest: { roles: ['other', 'author', 7], 'with space': [['deep']] },
  'https://www.example.com/role': { key: 'author' },
  $at_: { '@': 'signed' },
  rôle: 'accented',
}

test.each([
  ['.role', 'author'],
  ['.postgrest.roles[1]', 'author'],
  ['.postgrest.roles[2]', 7],
  ['.postgrest.roles[3]', undefined],
  ['.postgrest.roles[999999999]', undefined],
  ['.postgrest."with space"[0][0]', 'deep'],
  ['."https://www.example.com/role".key', 'author'],
  ['.$at_.@', 'signed'],
  ['.rôle', 'accented'],
  ['.missing', undefined],
  ['.role.length', undefined],
  ['.role[0]', undefined],
  ['.postgrest[0]', undefined],
  ['.postgrest.roles.length', undefined],
  ['.toString', undefined],
  ['.__proto__', undefined],
  ['.postgrest.roles[?(@ == "author")]', 'author'],
  ['.postgrest.roles[?(@=="author")]', 'author'],
  ['.postgrest.roles[?( @  ==  "author" )]', 'author'],
  ['.postgrest.roles[?(@ == "auth")]', undefined],
  ['.postgrest.roles[?(@ != "other")]', 'author'],
  ['.postgrest.roles[?(@ != "author")]', 'other'],
  ['.postgrest.roles[?(@ ^== "aut")]', 'author'],
  ['.postgrest.roles[?(@ ^== "hor")]', undefined],
  ['.postgrest.roles[?(@ ==^ "hor")]', 'author'],
  ['.postgrest.roles[?(@ ==^ "aut")]', undefined],
  ['.postgrest.roles[?(@ *== "utho")]', 'author'],
  ['.postgrest.roles[?(@ *== "th")]', 'other'],
  ['.role[?(@ == "author")]', undefined],
])('%s selects %j', (path, selected) => {
  expect(followRolePath(parseRolePath(path), claims)).toBe(selected)
})

test('"!=" skips elements that are not text', () => {
  expect(followRolePath(parseRolePath('.roles[?(@ != "a")]'), { roles: [1, null, {}, 'a', 'b'] })).toBe('b')
})

test.each([
  ['', 1, '"."'],
  ['role', 1, '"."'],
  ['.', 2, 'a key'],
  ['..role', 2, 'a key'],
  ['.role.', 7, 'a key'],
  ['.role-name', 6, '"."'],
  ['."role', 2, 'a key'],
  ['.roles[', 8, 'an index'],
  ['.roles[-1]', 8, 'an index'],
  ['.roles[1', 9, '"]"'],
  ['.roles[1234567890]', 17, '"]"'],
  ['.roles[?(', 10, '"@"'],
  ['.roles[?(@ = "a")]', 12, 'one of the operators'],
  ['.roles[?(@ == a)]', 15, 'a text in double quotes'],
  ['.roles[?(@ == "a"]', 18, '")]"'],
  ['.roles[?(@ == "a")].key', 20, 'the end'],
])('%s is refused at character %i', (path, position, expected) => {
  const refusal = `roleClaimKey: expected ${expected}`
  expect(() => parseRolePath(path)).toThrow(refusal)
  expect(() => parseRolePath(path)).toThrow(`at character ${position} of ${JSON.stringify(path)}`)
})

test('any text is a path, or is refused with a position', () => {
  const pieces = fc.constantFrom('.', 'role', '"a b"', '[', ']', '0', '[?(@ ', '==', '^', '"', ')]', ' ', '!=', 'é')
  const text = fc.oneof(
    fc.string(),
    fc.array(pieces).map(parts => parts.join('')),
  )
  fc.assert(
    fc.property(text, fc.jsonValue(), (path, value) => {
      try {
        followRolePath(parseRolePath(path), value)
      } catch (error) {
        expect(String(error)).toMatch(/^Error: roleClaimKey: expected .* at character \d+ of /)
      }
    }),
    { numRuns: 1000 },
  )
})

test('a quoted key may have any name', () => {
  const key = fc.string().filter(name => !name.includes('"') && name !== '__proto__')
  fc.assert(
    fc.property(key, fc.string(), (name, role) => {
      expect(followRolePath(parseRolePath(`."${name}"`), { [name]: role })).toBe(role)
    }),
  )
})
