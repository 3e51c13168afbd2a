import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { LogEntry } from './entry.ts'
import { entryOfHead, entryOfLine, timeOfLine } from './json.ts'
import { presented } from './present.ts'
import { redacted } from './redact.ts'

const line = {
  timestamp: '2026-01-02 03:04:05.678 UTC',
  user: 'app',
  dbname: 'app',
  pid: 42,
  remote_host: '10.0.0.1',
  remote_port: 50123,
  session_id: '6a026b3a.2a',
  line_num: 7,
  ps: 'SELECT',
  session_start: '2026-01-02 03:04:00 UTC',
  vxid: '3/4',
  txid: 0,
  error_severity: 'ERROR',
  state_code: '42P01',
  message: 'relation "pears" does not exist',
  statement: 'TABLE pears',
  cursor_position: 7,
  application_name: 'psql',
  backend_type: 'client backend',
  query_id: 0,
}
const entry: LogEntry = {
  timestamp: '2026-01-02T03:04:05.678Z',
  level: 'ERROR',
  message: 'relation "pears" does not exist',
  state_code: '42P01',
  user: 'app',
  dbname: 'app',
  remote_host: '10.0.0.1',
  pid: 42,
  line_num: 7,
  statement: 'TABLE pears',
}

describe('a line of the JSON log', () => {
  test('becomes the same entry as a line of the printed log', () => {
    expect(entryOfLine(JSON.stringify(line))).toEqual(entry)
    expect(timeOfLine(JSON.stringify(line))).toBe(Date.parse(entry.timestamp))
  })

  test.each([
    ['nothing', ''],
    ['truncated', JSON.stringify(line).slice(0, 300)],
    ['a list', '[1]'],
    ['a word', '"x"'],
    ['null', 'null'],
    ['without a valid timestamp', JSON.stringify({ ...line, timestamp: 'yesterday' })],
    ['with an invalid timestamp', JSON.stringify({ ...line, timestamp: '2026-13-02 03:04:05.678 UTC' })],
    ['with another time zone', JSON.stringify({ ...line, timestamp: '2026-01-02 03:04:05.678 CET' })],
    ['with an invalid level', JSON.stringify({ ...line, error_severity: 7 })],
    ['with an invalid message', JSON.stringify({ ...line, message: {} })],
  ])('that is %s is not an entry', (_, text) => {
    expect(entryOfLine(text)).toBeUndefined()
  })

  test('of another version becomes an entry with the known fields', () => {
    const { statement: _, ...rest } = line
    const later = { ...rest, pid: 'many', user: '', hint: ['x'], new_thing: { a: 1 } }
    const { statement, pid, user, ...known } = entry
    expect(entryOfLine(JSON.stringify(later))).toEqual(known)
  })

  test('whose beginning only was read becomes an entry without its texts', () => {
    const long = JSON.stringify({ ...line, message: `near "${'hunter2 '.repeat(10)}"`, statement: 'x'.repeat(1e5) })
    const { statement, ...rest } = entry
    expect(entryOfHead(long.slice(0, 400))).toEqual({ ...rest, message: '(left out: it is too long)' })
    const cunning = { ...line, user: 'a","error_severity":"PANIC', message: 'x'.repeat(1000) }
    expect(entryOfHead(JSON.stringify(cunning).slice(0, 500))).toMatchObject({ user: cunning.user, level: 'ERROR' })
  })

  test('never causes an error, whatever its content', () => {
    const noise = fc.oneof(
      fc.string(),
      fc.json(),
      fc.nat(600).map(at => JSON.stringify(line).slice(at)),
    )
    fc.assert(
      fc.property(noise, text => {
        for (const read of [entryOfLine(text), entryOfHead(text)]) {
          if (read === undefined) continue
          expect(new Date(read.timestamp).toISOString()).toBe(read.timestamp)
          expect(presented(read).message).toEqual(expect.any(String))
        }
      }),
    )
  })
})

describe('a possible password', () => {
  const words = fc.constantFrom(
    'ALTER ROLE x',
    'create user x ',
    ' pasword ',
    " PASSWORD '",
    'crypt(',
    'hunter2',
    "'",
    ' at or near "hunter2"',
    'SELECT 1',
    '\n',
  )
  const text = fc.array(words, { maxLength: 6 }).map(parts => parts.join(''))
  const entries = fc.record({ message: text, statement: text, detail: text, context: text })

  test('is omitted from the JSON log and from the printed log', () => {
    const failed = { ...line, message: 'role "x" does not exist', statement: "ALTER ROLE x PASSWORD 'hunter2'" }
    const read = entryOfLine(JSON.stringify(failed))
    expect(read && presented(read).statement).toMatch(/^ALTER ROLE x \(the rest is left out/)
  })

  test.each([
    ["ALTER ROLE x passwrod 'hunter2'", /^ALTER ROLE x \(the rest is left out/],
    ["create user x identified by 'hunter2'", /^create user x \(the rest is left out/],
    ['CREATE USER x IDENTIFIED BY hunter2', /^CREATE USER x \(the rest is left out/],
    ["create user x 'hunter2'", /^create user x \(the rest is left out/],
    ['alter role x paswd $$hunter2$$', /^alter role x \(the rest is left out/],
    ["do $$ begin execute 'alter role x pass ''hunter2'''; end $$", /^do .* execute 'alter role x \(the rest/],
    ["insert into users values (1, crypt('hunter2', gen_salt('bf')))", /^insert into users values \(1, \(the rest/],
    ["select pgp_sym_encrypt('x', 'hunter2')", /^select \(the rest/],
  ])('is omitted if every keyword is misspelt: %s', (statement, shown) => {
    const read = redacted({ ...entry, message: `syntax error at or near "'hunter2'"`, statement })
    expect(read.statement).toMatch(shown)
    expect(read.message).toBe('syntax error at or near (left out)')
    expect(redacted(read)).toEqual(read)
  })

  test.each(['create role x superuser', 'GRANT x TO y', "SELECT 'a' FROM roles WHERE user = 'x'"])(
    'is not suspected in %s',
    statement => {
      expect(redacted({ ...entry, statement })).toEqual({ ...entry, statement })
    },
  )

  test.each([
    ['connect to postgres://joe:hunter2@host/db', 'connect to postgres'],
    ['://joe:hunter2@', ''],
    [
      'http://host/a http://h:1/b c@d ftp://a@b http://x:y @ amqp://:z@h',
      'http://host/a http://h:1/b c@d ftp://a@b http://x:y @ amqp',
    ],
    ['mail joe@example.com about http://host:80/', undefined],
    ['http:// a:b@c, x://y/z:', undefined],
  ])('is omitted from an address: %s', (statement, expected = statement) => {
    const shown = redacted({ ...entry, statement }).statement
    expect(shown?.replace(/\(the rest.*$/, '')).toBe(expected)
  })

  test('is found quickly in any text', () => {
    const begun = performance.now()
    for (const word of ['://:', '://a:b', '://a:b ', '://', '@', 'a '])
      redacted({ ...entry, statement: word.repeat(1_000_000), message: 'statement: '.repeat(1000) })
    expect(performance.now() - begun).toBeLessThan(2_000)
  })

  test('is omitted once: redacted text stays unchanged', () => {
    fc.assert(
      fc.property(entries, texts => {
        const once = redacted({ ...entry, ...texts })
        expect(redacted(once)).toEqual(once)
      }),
    )
  })

  test('is shortened once: shortened text stays unchanged', () => {
    const once = presented({ ...entry, message: 'x'.repeat(20_500) })
    expect(once.message).toMatch(/^x{8192} \(12308 characters more\)$/)
    expect(presented(once)).toEqual(once)
  })

  test('is checked in one place', () => {
    const lines = readFileSync(new URL('../../api/logs/entries.ts', import.meta.url), 'utf8')
    expect(lines).toContain('presented')
    expect(lines).not.toContain('redacted')
  })
})
