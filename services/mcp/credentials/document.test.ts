import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseEntries, withEntries } from './document.ts'
import { type TokenEntry, tokenForm, userForm } from './files.ts'

const hash = 'a'.repeat(64)

const entry: fc.Arbitrary<TokenEntry> = fc.record(
  {
    hash: fc.stringMatching(/^[0-9a-f]{64}$/),
    expires_at: fc.option(
      fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-01-01') }).map(date => date.toISOString()),
    ),
    annotation: fc.string({ unit: 'binary', maxLength: 60 }).filter(text => text.isWellFormed()),
    database: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
  },
  { requiredKeys: ['hash', 'expires_at'] },
)
const name = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,20}$/),
  fc.constantFrom('constructor', 'toString', 'hasOwnProperty', 'null', 'true', '1', '1.0', '0x10', '1e3', 'yes'),
)
const entries = fc.array(fc.tuple(name, entry), { maxLength: 8 }).map(list => new Map(list))

test('reads written entries back unchanged, whatever the file contained before', () => {
  fc.assert(
    fc.property(entries, entries, (before, after) => {
      const first = withEntries(tokenForm, undefined, before)
      expect(parseEntries(tokenForm, first)).toEqual(before)
      expect(parseEntries(tokenForm, withEntries(tokenForm, first, after))).toEqual(after)
    }),
    { numRuns: 60 },
  )
})

test('a change keeps comments in the file', () => {
  const text = `# kept by the platform team\ntokens:\n  one: # of the nightly job\n    hash: ${hash}\n  two:\n    hash: ${'b'.repeat(64)}\n`
  const written = withEntries(
    tokenForm,
    text,
    new Map([...parseEntries(tokenForm, text)].filter(([id]) => id !== 'two')),
  )
  expect(written.replaceAll(/\s+/g, ' ')).toBe(
    `# kept by the platform team tokens: one: # of the nightly job hash: ${hash} `,
  )
})

test.each([
  ['', 'the file, which must have tokens:'],
  ['tokens', 'the file, which must have tokens:'],
  ['users: {}', 'the file, which must have tokens:'],
  [`tokens:\n  one: {hash: ${hash}}\nother: 1`, 'has unknown keys: other'],
  [`tokens:\n  one: {hash: ${hash}, note: x}`, 'tokens.one has unknown keys: note'],
  ['tokens:\n  one: {hash: abc}', 'tokens.one.hash must be a SHA-256 in 64 small hex digits'],
  [`tokens:\n  one: {hash: ${hash}, expires_at: tomorrow}`, 'tokens.one.expires_at must be a time like'],
  [`tokens:\n  one: {hash: ${hash}}\n  one: {hash: ${hash}}`, 'is not YAML (DUPLICATE_KEY, line 3'],
  [`tokens:\n  one: {hash: ${hash}`, 'is not YAML ('],
  [`tokens:\n  one: &a {hash: ${hash}}\n  two: *a`, 'has an alias'],
  [`tokens:\n  "a b": {hash: ${hash}}`, 'tokens.a b must be 1 to 128 letters'],
])('%j is refused: %s', (text, message) => {
  expect(() => parseEntries(tokenForm, text)).toThrow(message)
})

test('an error does not quote possible secrets', () => {
  const password_hash = '$2a$12$abcdefghijklmnopqrstuv'
  const text = `users:\n  alice: {password_hash: "${password_hash}"}`
  expect(() => parseEntries(userForm, text)).toThrow('users.alice.password_hash must be an scrypt hash')
  for (const broken of [text, `${text}\n  : [${password_hash}`, `tokens:\n  ${password_hash}: 1`]) {
    let message = ''
    try {
      parseEntries(userForm, broken)
    } catch (error) {
      message = String(error)
    }
    expect(message).toContain('CredentialError')
    expect(message).not.toContain('2a$12')
  }
})

test('accepts any text completely, or refuses it with a CredentialError', () => {
  const near = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .array(
        fc.constantFrom(
          'tokens:',
          'users:',
          '\n',
          '  ',
          '- ',
          'one:',
          '{',
          '}',
          '[',
          '&a ',
          '*a',
          '!!js ',
          hash,
          '"',
          '? ',
          '|',
          '<<: ',
        ),
      )
      .map(parts => parts.join('')),
  )
  fc.assert(
    fc.property(near, text => {
      try {
        expect(parseEntries(tokenForm, text)).toBeInstanceOf(Map)
      } catch (error) {
        expect(error).toHaveProperty('name', 'CredentialError')
      }
    }),
    { numRuns: 500 },
  )
})

test('a table named like an inherited property gives no access', () => {
  expect(parseEntries(tokenForm, 'tokens: {}').get('constructor')).toBeUndefined()
  expect(parseEntries(tokenForm, `tokens:\n  __proto__: {hash: ${hash}}`).size).toBe(0)
})
