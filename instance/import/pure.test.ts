/** The parts of an import that need no server. */
import { expect, test } from 'vitest'
import { refuse, type SourceFacts, type TargetFacts } from './catalog.ts'
import { isPassingFault, parseProgress, progressName } from './contract.ts'
import { isOmitted, pipelines } from './copy.ts'
import { errorLines, sourceError, targetError } from './fault.ts'

const source: SourceFacts = {
  ...{ version: 16, versionName: '16.4', encoding: 'UTF8', bytes: 1_000, tables: [], eventTriggers: [], reserved: 0 },
  extensions: [{ name: 'plpgsql', version: '1.0' }],
}
const target: TargetFacts = {
  ...{ present: ['plpgsql', 'amcheck'], encoding: 'UTF8' },
  available: [
    { name: 'citext', trusted: true },
    { name: 'file_fdw', trusted: false },
  ],
}
const limits = { major: 17, capacityBytes: 10_000 }
const programs = { directory: '/bin', major: 17 }
const extension = (name: string) => ({ extensions: [{ name, version: '1' }] })

test.each<[string, Partial<SourceFacts>, string, RegExp]>([
  [
    'newer than the database',
    { version: 18, versionName: '18.1' },
    'SourceVersion',
    /create one with pg_version 18 or newer$/,
  ],
  ['too old', { version: 9, versionName: '9.6' }, 'SourceVersion', /the oldest supported version is 10$/],
  ['too large', { bytes: 9_001 }, 'NotEnoughStorage', /choose a larger size$/],
  ['of bytes without an encoding', { encoding: 'SQL_ASCII' }, 'SourceRefused', /SQL_ASCII/],
  ['with tables in the reserved schema', { reserved: 1 }, 'SchemaReserved', /"espalier"/],
  [
    'with an extension that is not available',
    extension('postgis'),
    'ExtensionMissing',
    /"postgis".*docs\/kubernetes\.md/,
  ],
  ['with an extension of superusers', extension('file_fdw'), 'ExtensionMissing', /"file_fdw", which only a superuser/],
])('a source %s is refused', (_, more, fault, message) => {
  const refused = () => refuse({ ...source, ...more }, target, limits, programs)
  expect(refused).toThrow(expect.objectContaining({ fault, message: expect.stringMatching(message) }))
})

test('older programs are refused with installation advice, and a supported source is accepted', () => {
  expect(() => refuse(source, target, limits, { directory: '/old', major: 15 })).toThrow(
    /pg_dump in \/old is 15: .*postgresql-client-16$/,
  )
  expect(() => refuse({ ...source, ...extension('citext'), bytes: 9_000 }, target, limits, programs)).not.toThrow()
  expect(() => refuse({ ...source, ...extension('amcheck') }, target, limits, programs)).not.toThrow()
})

test.each<[string, 'reported' | 'silent' | undefined]>([
  ['215; 1259 16385 TABLE public orders alice', undefined],
  ['2; 3079 16390 EXTENSION - citext ', undefined],
  ['2; 3079 16390 EXTENSION - amcheck ', 'silent'],
  ['3400; 0 0 COMMENT - EXTENSION amcheck ', 'silent'],
  ['5; 2615 2200 SCHEMA - public pg_database_owner', 'silent'],
  ['3401; 0 0 COMMENT - SCHEMA public pg_database_owner', 'silent'],
  ['6; 2615 16400 SCHEMA - publications alice', undefined],
  ['3300; 3466 16410 EVENT TRIGGER - audit postgres', 'reported'],
  [';     dbname: shop', undefined],
])('the entry "%s" is skipped: %s', (line, expected) => {
  expect(isOmitted(line, ['plpgsql', 'amcheck'])).toBe(expected)
})

test('each large table is copied separately, the largest first', () => {
  const table = (name: string, mebibytes: number) => ({ schema: 'public', name, bytes: mebibytes * 1024 ** 2 })
  const tables = [table('a', 40), table('b', 1), table('c', 90)]
  expect(pipelines(tables, 4).large.map(({ name }) => name)).toEqual(['c', 'a'])
  expect(pipelines(tables, 1).large).toEqual([])
})

test('a message contains no rows of the data', () => {
  const text = `pg_restore: error: COPY failed for table "t": ERROR:  new row for relation "t" violates check constraint "c"
DETAIL:  Failing row contains (hidden).
CONTEXT:  COPY t, line 1: "hidden"
`
  expect(errorLines(text)).toBe(
    'error: COPY failed for table "t": ERROR:  new row for relation "t" violates check constraint "c"',
  )
  expect(targetError(text).fault).toBe('RestoreFailed')
})

test.each<[string, string]>([
  ['psql: error: connection to server at "h", port 1 failed: Connection refused', 'SourceUnreachable'],
  [
    'psql: error: connection to server at "h", port 1 failed: FATAL:  password authentication failed for user "u"',
    'SourceRefused',
  ],
  [
    'psql: error: connection to server at "h", port 1 failed: server does not support SSL, but SSL was required',
    'SourceRefused',
  ],
  ['pg_dump: error: query failed: ERROR:  permission denied for table orders', 'DumpFailed'],
  ['pg_dump: error: query failed: server closed the connection unexpectedly', 'SourceUnreachable'],
])('%s is %s', (text, fault) => {
  expect(sourceError(text).fault).toBe(fault)
})

test.each<[string, string, boolean]>([
  [
    'pg_restore: error: could not execute query: ERROR:  could not extend file "base/1": No space left on device',
    'NotEnoughStorage',
    false,
  ],
  ['psql: error: connection to server failed: FATAL:  the database system is shutting down', 'TargetUnavailable', true],
  ['pg_restore: error: could not execute query: ERROR:  type "geometry" does not exist', 'RestoreFailed', false],
])('of the database, %s is %s', (text, fault, passes) => {
  const error = targetError(text)
  expect([error.fault, isPassingFault(error.fault)]).toEqual([fault, passes])
})

test('progress fits into the name of a session, and can be parsed from it', () => {
  const large = {
    step: 'counting' as const,
    tables: { done: 99_999, total: 100_000 },
    bytes: { done: 2 ** 43, total: 2 ** 43 },
    beat: 99_999,
  }
  expect(progressName(large).length).toBeLessThanOrEqual(63)
  expect(parseProgress(progressName(large))).toEqual(large)
  expect(parseProgress('import data 1/2')).toBeUndefined()
  expect(parseProgress('import other 1/2 3/4 5')).toBeUndefined()
})
