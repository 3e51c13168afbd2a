import { describe, expect, test } from 'vitest'
import { keysOf, namesOf } from '../../configuration/declaration.ts'
import { ConfigurationError, exampleConfiguration, loadConfiguration, type Sources } from './index.ts'
import { keys } from './keys.ts'

const noFile = () => {
  throw Object.assign(new Error('no such file: the-secret-path'), { code: 'ENOENT' })
}
const load = (file: string, sources: Partial<Sources> = {}) =>
  loadConfiguration({ file, environment: {}, readFile: noFile, ...sources })

function problemsOf(file: string, sources: Partial<Sources> = {}): string[] {
  try {
    load(file, sources)
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message.split('\n')
    throw error
  }
  return []
}

test('all keys have defaults if there is no source', () => {
  expect(loadConfiguration({ environment: {}, readFile: noFile })).toMatchObject({
    dbUri: 'postgresql://',
    dbSchemas: ['public'],
    dbExtraSearchPath: ['public'],
    dbHoistedTxSettings: ['statement_timeout', 'plan_filter.statement_cost_limit', 'default_transaction_isolation'],
    dbPool: 10,
    dbTxEnd: 'commit',
    dbAnonRole: undefined,
    dbMaxRows: undefined,
    jwtSecret: undefined,
    jwtRoleClaimKey: '.role',
    jwtCacheMaxEntries: 1000,
    clientErrorVerbosity: 'verbose',
    serverHost: '!4',
    serverPort: 3000,
    serverUnixSocketMode: 0o660,
    serverCorsAllowedOrigins: undefined,
    serverWorkers: 1,
    serverMaxBodyBytes: 10 * 1024 * 1024,
    serverMaxHeaderBytes: 64 * 1024,
    serverMaxHeldBytes: undefined,
    appSettings: {},
  })
})

describe('values', () => {
  test('are read from a file', () => {
    const configuration = load(`
      db-schemas = "v1, v2 ,SPECIAL \\"@/\\\\#~_-"
      db-extra-search-path = ""
      db-max-rows = 2
      db-tx-end = "rollback-allow-override"
      db-pre-request = "test.switch_role"
      jwt-secret = "{\\"kty\\": \\"oct\\", \\"k\\": \\"${'A'.repeat(43)}\\"}"
      server-cors-allowed-origins = "https://a.example, https://b.example:8443"
      server-unix-socket-mode = 600
      openapi-server-proxy-uri = "https://postgrest.com/openapi.json"
      app.settings.app_host = "localhost"
      app.settings.Limit = 5`)
    expect(configuration).toMatchObject({
      dbSchemas: ['v1', 'v2', 'SPECIAL "@/\\#~_-'],
      dbExtraSearchPath: [],
      dbMaxRows: 2,
      dbTxEnd: 'rollback-allow-override',
      dbPreRequest: 'test.switch_role',
      jwtSecret: `{"kty": "oct", "k": "${'A'.repeat(43)}"}`,
      serverCorsAllowedOrigins: ['https://a.example', 'https://b.example:8443'],
      serverUnixSocketMode: 0o600,
      openapiServerProxyUri: 'https://postgrest.com/openapi.json',
      appSettings: { app_host: 'localhost', limit: '5' },
    })
  })

  test('are read from older key names; the current name takes precedence, and so does the last of two lines', () => {
    expect(
      load('max-rows = 1\npre-request = "f"\ndb-schema = "s"\ndb-pool-timeout = 5\nsecret-is-base64 = off'),
    ).toMatchObject({ dbMaxRows: 1, dbPreRequest: 'f', dbSchemas: ['s'], dbPoolMaxIdletime: 5 })
    expect(load('db-max-rows = 1\nmax-rows = 2').dbMaxRows).toBe(1)
    expect(load('db-pool = 1\ndb-pool = 2').dbPool).toBe(2)
  })

  test('unset a key if they are empty', () => {
    const environment = { ESPALIER_REST_DB_ANON_ROLE: '', ESPALIER_REST_DB_POOL: '', ESPALIER_REST_DB_MAX_ROWS: '' }
    expect(load('db-anon-role = "web"\ndb-pool = 5\ndb-max-rows = 5', { environment })).toMatchObject({
      dbAnonRole: undefined,
      dbPool: 10,
      dbMaxRows: undefined,
    })
  })

  test('are text in the environment and in the database', () => {
    const environment = {
      ESPALIER_REST_DB_POOL: ' 7 ',
      ESPALIER_REST_DB_PLAN_ENABLED: 'True',
      ESPALIER_REST_LOG_QUERY: '0',
    }
    const database = { 'pgrst.db_max_rows': '50', 'pgrst.db_aggregates_enabled': 'on' }
    expect(load('log-query = true', { environment, database })).toMatchObject({
      dbPool: 7,
      dbPlanEnabled: true,
      logQuery: false,
      dbMaxRows: 50,
      dbAggregatesEnabled: true,
    })
  })
})

describe('sources', () => {
  test('have ascending precedence: file, environment, database', () => {
    const file = 'jwt-aud = "file"'
    const environment = { ESPALIER_REST_JWT_AUD: 'environment' }
    expect(load(file).jwtAud).toBe('file')
    expect(load(file, { environment }).jwtAud).toBe('environment')
    expect(load(file, { environment, database: { 'pgrst.jwt_aud': 'older' } }).jwtAud).toBe('older')
    const database = { 'rst.jwt_aud': 'database', 'pgrst.jwt_aud': 'older' }
    expect(load(file, { environment, database }).jwtAud).toBe('database')
  })

  test('skip the database if db-config is false in any source', () => {
    const database = { 'rst.jwt_aud': 'database' }
    expect(load('db-config = false', { database }).jwtAud).toBeUndefined()
    expect(load('', { environment: { ESPALIER_REST_DB_CONFIG: 'off' }, database }).jwtAud).toBeUndefined()
    expect(load('db-config = true', { database }).jwtAud).toBe('database')
  })

  test('supply app settings in lower case, and the environment takes precedence over the file', () => {
    const environment = { ESPALIER_REST_APP_SETTINGS_API_KEY: 'e', ESPALIER_REST_APP_SETTINGS___PROTO__: 'p' }
    const { appSettings } = load('app.settings.Api_Key = "f"\napp.settings.constructor = "c"', { environment })
    expect(Object.entries(appSettings)).toEqual([
      ['api_key', 'e'],
      ['constructor', 'c'],
      ['__proto__', 'p'],
    ])
  })

  test('in the database cannot set keys that only the server may set', () => {
    const database = {
      'rst.db_uri': 'postgresql://elsewhere',
      'rst.db_pool': '1000',
      'rst.server_host': '*',
      'rst.log_query': 'true',
      'rst.unknown': 'x',
    }
    expect(load('', { database })).toEqual(load(''))
  })

  test('in the environment ignore other variables', () => {
    expect(
      load('', { environment: { ESPALIER_REST_SERVICE_HOST: '10.0.0.1', ESPALIER_REST_PORT: 'tcp://10.0.0.1:1' } }),
    ).toEqual(load(''))
  })

  test('include an environment variable for every key', () => {
    for (const { name, key } of keysOf(keys)) {
      const variable = `ESPALIER_REST_${name.toUpperCase().replaceAll('-', '_')}`
      const wrong = { environment: { [variable]: '\0'.repeat(70_000) } }
      expect(problemsOf('', wrong)).toEqual([`${name} (environment, ${variable}) ${key.kind.rule}`])
    }
  })
})

describe('secrets', () => {
  const files: Record<string, string | Buffer> = {
    './secret': 'from a file, thirty-two characters\n',
    '/uri': Buffer.from('postgresql://u@h/d\r\n'),
    binary: Buffer.from([0xff, 0xfe]),
    empty: '\n',
  }
  const readFile = (path: string) => files[path] ?? noFile()

  test('can be in a separate file', () => {
    expect(load('jwt-secret = "@./secret"\ndb-uri = "@/uri"', { readFile })).toMatchObject({
      jwtSecret: 'from a file, thirty-two characters',
      dbUri: 'postgresql://u@h/d',
    })
    expect(load('jwt-aud = "@./secret"', { readFile }).jwtAud).toBe('@./secret')
  })

  test.each([
    ['missing', 'names a file that cannot be read (ENOENT)'],
    ['binary', 'names a file that is not text in UTF-8; bytes must be written in Base64'],
    ['empty', 'names a file that is empty'],
    ['', 'must name a file after "@"'],
  ])('in the file %j are refused with the reason', (path, rule) => {
    expect(problemsOf(`jwt-secret = "@${path}"`, { readFile })).toEqual([`jwt-secret (file, line 1) ${rule}`])
  })

  test('in the database never read a file of the server', () => {
    const reads: string[] = []
    const sources = { database: { 'rst.jwt_secret': '@/uri' }, readFile: (path: string) => String(reads.push(path)) }
    expect(problemsOf('', sources)).toEqual([
      'jwt-secret (database, rst.jwt_secret) must not name a file from within the database',
    ])
    expect(reads).toEqual([])
  })

  test('in Base64 are read as bytes', () => {
    const bytes = (text: string) => load(`jwt-secret = "${text}"\njwt-secret-is-base64 = true`).jwtSecret
    const expected = new Uint8Array([...Buffer.alloc(30), 0xfb, 0xff])
    expect(bytes(`${'A'.repeat(40)}+/8=`)).toEqual(expected)
    expect(bytes(`${'A'.repeat(40)}-_8.`)).toEqual(expected)
    expect(bytes('')).toBeUndefined()
  })

  test.each(['+/8', '+/ 8=', '+/9=', 'not base64!', '+/\\n8='])('%j is not Base64', text => {
    expect(problemsOf(`jwt-secret-is-base64 = true\njwt-secret = "${text}"`)).toEqual([
      'jwt-secret (file, line 2) must be Base64 (RFC 4648) in one line, since jwt-secret-is-base64 is set',
    ])
  })
})

describe('token verification settings', () => {
  test.each([
    ['jwt-secret = "short"', 'jwt-secret (file, line 1) must be at least 32 characters long'],
    [
      'jwt-secret-is-base64 = true\njwt-secret = "c2hvcnQ="',
      'jwt-secret (file, line 2) must be at least 32 characters long',
    ],
    [
      'jwt-secret = "{\\"keys\\": []}"',
      'jwt-secret (file, line 1) is a JSON Web Key set without a key that can verify signatures',
    ],
    ['jwt-role-claim-key = "role"', 'jwt-role-claim-key (file, line 1) expected "." at character 1 of "role"'],
  ])('are refused at startup if invalid: %s', (file, problem) => {
    expect(problemsOf(file)).toEqual([problem])
  })
})

describe('errors', () => {
  test('are reported together, with key, source and rule', () => {
    const environment = { ESPALIER_REST_DB_TX_END: 'never', ESPALIER_REST_APP_SETTINGS_1: 'x' }
    const database = { 'pgrst.db_max_rows': 'many' }
    expect(
      problemsOf('db-anonrole = "x"\nserver-port = 65536\napp.settings.a-b = 1', { environment, database }),
    ).toEqual([
      'db-anonrole (file, line 1) is not a key; the nearest one is db-anon-role',
      'app.settings.a-b (file, line 3) must be a name that Postgres accepts: letters, digits and underscores',
      'app.settings.1 (environment, ESPALIER_REST_APP_SETTINGS_1) must be a name that Postgres accepts: letters, digits and underscores',
      'db-max-rows (database, pgrst.db_max_rows) must be a whole number from 0 to 2147483647',
      'db-tx-end (environment, ESPALIER_REST_DB_TX_END) must be one of "commit", "commit-allow-override", "rollback", "rollback-allow-override"',
      'server-port (file, line 2) must be a whole number from 0 to 65535',
    ])
  })

  test.each([
    'db-schemas = ""',
    'db-schemas = "a,,b"',
    'db-schemas = "a, a"',
    'db-schemas = "api, pg_catalog"',
    'db-schemas = "information_schema"',
    `db-schemas = "${'x'.repeat(64)}"`,
    'db-extra-search-path = "a,"',
    `db-anon-role = "${'é'.repeat(32)}"`,
    'db-anon-role = "a\\nb"',
    'db-pool = 0',
    'db-pool = "1e1"',
    'db-pool = true',
    'db-pool-max-lifetime = 2147484',
    'db-max-rows = -1',
    'db-uri = "mysql://h"',
    'db-plan-enabled = "maybe"',
    'db-plan-enabled = 1',
    'jwt-aud = "https://a b"',
    'jwt-aud = "1:x"',
    'log-level = "Error"',
    'openapi-mode = true',
    'openapi-server-proxy-uri = "ftp://example.com"',
    'openapi-server-proxy-uri = "example.com"',
    'openapi-server-proxy-uri = "http://:80"',
    'server-host = "a b"',
    'server-trace-header = "X Request"',
    'server-trace-header = "X:Y"',
    'server-unix-socket-mode = "888"',
    'server-unix-socket-mode = "0660"',
    'server-unix-socket-mode = "577"',
    `server-unix-socket = "/${'x'.repeat(107)}"`,
    'server-cors-allowed-origins = "https://a b"',
    'server-workers = 11',
    'server-max-body-bytes = 1023',
    'admin-server-port = 3000',
    'server-port = 0\nserver-reuseport = true\nserver-workers = 2',
  ])('%s is refused, and the error starts with its key', line => {
    const problems = problemsOf(line)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(new RegExp(`^${line.split(' ')[0]} \\(file, line 1\\) `))
  })

  test.each([
    'jwt-aud = "https://example.com/a?b"',
    'jwt-aud = "urn:example:a"',
    'jwt-aud = "plain audience"',
    'server-host = "::1"',
    'server-host = "*6"',
    'db-pool = "20"',
    'db-plan-enabled = "1"',
    'server-port = 0\nadmin-server-port = 0',
    'admin-server-port = 3000\nserver-unix-socket = "/run/rest.sock"',
    'server-workers = 11\ndb-pool = 11',
    'server-port = 0\nserver-reuseport = true',
    'server-port = 0\nserver-workers = 2',
  ])('no error for %j', text => {
    expect(problemsOf(text)).toEqual([])
  })

  test('do not contain the value', () => {
    const environment = Object.fromEntries(
      keysOf(keys).map(({ name }) => [`ESPALIER_REST_${name.toUpperCase().replaceAll('-', '_')}`, 'Hidden value\0']),
    )
    expect(problemsOf('', { environment }).join()).not.toContain('Hidden')
  })

  test('report too many app settings, and app settings that are too long', () => {
    const lines = Array.from({ length: 1_001 }, (_, index) => `app.settings.s${index} = 1`)
    expect(problemsOf(lines.join('\n'))).toEqual(['app.settings.* (file, line 1001) must be at most 1000'])
    expect(problemsOf(lines.slice(1).join('\n'))).toEqual([])
    expect(problemsOf(`app.settings.a = "${'x'.repeat(65_537)}"`)).toHaveLength(1)
    expect(problemsOf(`app.settings.${'x'.repeat(201)} = 1`)).toHaveLength(1)
  })
})

test('every default is valid, and every name is unique', () => {
  const names = namesOf(keys).map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const { key } of keysOf(keys)) expect(key.kind.schema.safeParse(key.default).success).toBe(true)
})

test('the example contains every key with its default', () => {
  const bindings = exampleConfiguration().replace(/^# (?=[a-z0-9-]+ = )/gm, '')
  expect(bindings.match(/^[a-z0-9-]+ = /gm)).toHaveLength(keysOf(keys).length)
  expect(load(bindings)).toEqual(load(''))
})
