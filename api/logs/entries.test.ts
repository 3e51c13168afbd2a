import { describe, expect, test } from 'vitest'
import { entriesOf } from './entries.ts'

const stamp = '2026-01-02T03:04:05.678901234Z'
const of = (...lines: string[]) => entriesOf(lines.map(line => `${stamp} ${line}`))
const at = '2026-01-02 03:04:05.678 UTC'
const session = `${at} [42:7] 42P01 [user=app db=app client=10.0.0.1] `
const known = {
  timestamp: '2026-01-02T03:04:05.678Z',
  state_code: '42P01',
  user: 'app',
  dbname: 'app',
  remote_host: '10.0.0.1',
  pid: 42,
  line_num: 7,
}

describe('an entry', () => {
  test('of the server itself', () => {
    expect(of(`${at} [1:3] 00000 LOG:  database system is ready to accept connections`)).toEqual([
      {
        timestamp: '2026-01-02T03:04:05.678Z',
        level: 'LOG',
        message: 'database system is ready to accept connections',
        pid: 1,
        line_num: 3,
      },
    ])
  })

  test('of a session, with all its details, over several lines', () => {
    const lines = [
      `${session}ERROR:  relation "fruit" does not exist at character 15`,
      `${session}DETAIL:  some`,
      '\tmore detail',
      `${session}HINT:  a hint`,
      `${session}QUERY:  SELECT 1`,
      `${session}CONTEXT:  PL/pgSQL function f() line 1`,
      `${session}LOCATION:  somewhere`,
      '\tthat is not shown',
      `${session}STATEMENT:  SELECT *`,
      '\tFROM fruit',
    ]
    expect(of(...lines)).toEqual([
      {
        ...known,
        level: 'ERROR',
        message: 'relation "fruit" does not exist at character 15',
        detail: 'some\nmore detail',
        hint: 'a hint',
        internal_query: 'SELECT 1',
        context: 'PL/pgSQL function f() line 1',
        statement: 'SELECT *\nFROM fruit',
      },
    ])
  })

  test.each(['DEBUG1', 'INFO', 'NOTICE', 'WARNING', 'FATAL', 'PANIC'])('with level %s', level => {
    expect(of(`${session}${level}:  said`)).toEqual([{ ...known, level, message: 'said' }])
  })

  test('with any user name', () => {
    const [entry] = of(`${at} [42:7] 28P01 [user=a b] ERROR:  x db=app client=10.0.0.1] FATAL:  no such role`)
    expect(entry).toMatchObject({ level: 'FATAL', user: 'a b] ERROR:  x', message: 'no such role' })
  })

  test('of output without a prefix, at the time of its arrival', () => {
    expect(of('initialised the volume')).toEqual([
      { timestamp: '2026-01-02T03:04:05.678Z', level: 'LOG', message: 'initialised the volume' },
    ])
    expect(entriesOf(['no time'])).toEqual([{ timestamp: '1970-01-01T00:00:00.000Z', level: 'LOG', message: 'time' }])
  })

  test('that started before these lines is omitted', () => {
    expect(of("\tPASSWORD 'hunter2'", `${session}STATEMENT:  ALTER ROLE x`, "\tPASSWORD 'hunter2'")).toEqual([])
  })

  test('is truncated, and one whose line was split continues', () => {
    const [entry, ...others] = of(`${session}ERROR:  ${'x'.repeat(20_000)}`, `${'y'.repeat(500)}`, 'apart')
    expect(entry?.message).toMatch(/^x{8192} \(12308 characters more\)$/)
    expect(others).toMatchObject([{ message: 'apart' }])
  })

  test('with an endless name is parsed quickly', () => {
    const started = performance.now()
    of(`${at} [42:7] 42P01 [user=${' db='.repeat(10_000)}${' client='.repeat(10_000)}`)
    expect(performance.now() - started).toBeLessThan(500)
  })
})

describe('no password is returned', () => {
  const secret = 'hunter2'
  test.each<[string, string[]]>([
    ['of a role', [`ERROR:  role "x" does not exist`, `STATEMENT:  ALTER ROLE x PASSWORD '${secret}'`]],
    ['on a line of its own', [`ERROR:  no`, `STATEMENT:  ALTER ROLE x`, `\tPASSWORD`, `\t'${secret}'`]],
    ['in dollars', ['ERROR:  no', `STATEMENT:  CREATE ROLE x PASSWORD $$${secret}$$`]],
    [
      'quoted by a syntax error',
      [`ERROR:  syntax error at or near "${secret}" at character 3`, `STATEMENT:  ALTER ROLE x PASSWORD ${secret}`],
    ],
    ['of a subscription', ['ERROR:  no', `STATEMENT:  CREATE SUBSCRIPTION s CONNECTION 'host=h password=${secret}'`]],
    [
      'of a user mapping',
      ['ERROR:  no', `STATEMENT:  CREATE USER MAPPING FOR x OPTIONS (user 'u', password '${secret}')`],
    ],
    ['in a URL', ['ERROR:  no', `STATEMENT:  SELECT dblink('postgres://u:${secret}@h/d')`]],
    ['inside a function', ['ERROR:  no', `CONTEXT:  SQL statement "ALTER ROLE x PASSWORD '${secret}'"`]],
    ['in a query of a function', ['ERROR:  no', `QUERY:  ALTER ROLE x PASSWORD '${secret}'`]],
    ['where statements are logged', [`LOG:  statement: ALTER ROLE x PASSWORD '${secret}'`]],
    [
      'where the duration of statements is logged',
      [`LOG:  duration: 1.234 ms  statement: ALTER ROLE x PASSWORD '${secret}'`],
    ],
    ['prepared', [`LOG:  execute p1: ALTER ROLE x PASSWORD '${secret}'`]],
    ['as a parameter', [`LOG:  execute p1: SELECT set_password($1)`, `DETAIL:  parameters: $1 = '${secret}'`]],
    ['as a verifier', ['ERROR:  no', `STATEMENT:  ALTER ROLE x SET x = 'SCRAM-SHA-256$4096:${secret}'`]],
  ])('%s', (_name, lines) => {
    const entries = of(...lines.map(line => (line.startsWith('\t') ? line : `${session}${line}`)))
    expect(entries).toHaveLength(1)
    expect(JSON.stringify(entries)).not.toContain(secret)
    expect(JSON.stringify(entries)).toContain('left out')
  })

  test('text that only mentions one is unchanged', () => {
    const message = 'password authentication failed for user "app"'
    expect(of(`${session}FATAL:  ${message}`)).toMatchObject([{ message }])
    expect(of('the Secret with the certificate is not mounted')).toMatchObject([
      { message: expect.stringMatching(/^the Secret with/) },
    ])
  })
})
