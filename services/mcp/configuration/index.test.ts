import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Sources } from '../../configuration/declaration.ts'
import { ConfigurationError } from '../../configuration/errors.ts'
import { readCredentialPaths, readMcpSettings } from './index.ts'

type TestSources = {
  file?: string
  environment?: Record<string, string>
  flags?: Record<string, string | true>
  files?: Record<string, string>
}

const sources = ({ file, environment = {}, flags = {}, files = {} }: TestSources): Sources => ({
  file: file === undefined ? undefined : { path: '/etc/espalier/mcp.yaml', text: file },
  environment,
  flags: new Map(Object.entries(flags)),
  readFile: path => {
    const text = files[path]
    if (text === undefined) throw Object.assign(new Error('none'), { code: 'ENOENT' })
    return text
  },
})
const read = (given: TestSources) => readMcpSettings(sources(given))
const database = 'databases: [{name: main}]\n'

function problemsOf(given: TestSources): string[] {
  try {
    read(given)
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message.split('\n')
    throw error
  }
  return []
}

test('unset keys have their defaults', () => {
  const { sealingKey, ...settings } = read({ environment: { PGHOST: 'db.internal' } })
  expect(sealingKey).toHaveLength(32)
  expect(settings).toEqual({
    http: undefined,
    databases: [
      {
        name: 'postgres',
        host: 'db.internal',
        port: 5432,
        database: 'postgres',
        user: 'postgres',
        password: undefined,
        sslmode: 'prefer',
        sslrootcert: undefined,
        sslcert: undefined,
        sslkey: undefined,
        channelBinding: 'prefer',
        allowWrites: false,
        allowUnconfirmed: false,
        allowPrivilegedLogin: false,
        showSecrets: false,
        poolSize: 8,
        poolMinimum: 0,
        poolIdleMs: 1_800_000,
        poolLifetimeMs: 3_600_000,
        poolCheckMs: 30_000,
        connectTimeoutMs: 10_000,
        statementTimeoutMs: 30_000,
        metadataMs: 300_000,
        availableToUsers: undefined,
      },
    ],
    embedding: undefined,
    llm: [],
    knowledgebase: undefined,
    dataDirectory: '/var/lib/espalier/mcp',
    disabled: new Set(),
    limits: { resultTokens: 10_000, queryTokens: 50_000, resultBytes: 8_388_608, requestBytes: 10_485_760 },
    logLevel: 'info',
    auditStatements: 'reads',
  })
  expect(read({ file: `http: {enabled: true}\n${database}` }).http).toEqual({
    host: '*',
    port: 8080,
    tls: undefined,
    allowedOrigins: [],
    trustedProxies: [],
    authentication: {
      enabled: true,
      tokenFile: '/etc/espalier/mcp-tokens.yaml',
      userFile: '/etc/espalier/mcp-users.yaml',
      rateLimitWindowMinutes: 15,
      rateLimitMaximumAttempts: 10,
      maximumFailedAttemptsBeforeLockout: 0,
    },
  })
})

test('a file with all keys is read', () => {
  const settings = read({
    file: `
http:
  enabled: true
  address: "[::1]:9000"
  tls: {enabled: true, cert_file: /c, key_file: /k, chain_file: /ch}
  auth:
    enabled: true
    token_file: /t
    user_file: /u
    max_failed_attempts_before_lockout: 5
    rate_limit_window_minutes: 1
    rate_limit_max_attempts: 3
  client_ip: {trusted_proxies: [10.0.0.0/8, 192.0.2.1]}
  allowed_origins: [https://app.example.com]
databases:
  - name: sales
    host: sales.internal
    port: 5433
    database: orders
    user: reader
    password_file: /secrets/sales
    sslmode: verify-full
    sslrootcert: /ca
    sslcert: /crt
    sslkey: /key
    allow_writes: true
    pool_max_conns: 8
    connect_timeout: 2s
    statement_timeout: 1m
    metadata_ttl: 0s
    available_to_users: [alice, bob]
  - {name: stock, host: stock.internal}
embedding: {enabled: true, provider: voyage, model: v, voyage_api_key: key-of-voyage, per_attempt_timeout: 1.5s}
llm: {provider: anthropic, model: m, anthropic_api_key_file: /secrets/llm, ollama_url: "http://ollama:11434", max_tokens: 100, timeout: 10s}
knowledgebase: {database_path: /kb.db, embedding_provider: ollama, embedding_model: n, embedding_ollama_url: "http://ollama:11434"}
builtins:
  tools: {count_rows: false, query_database: true}
  resources: {system_info: false}
  prompts: {design-schema: false}
data_dir: /data
secret_file: /secrets/seal
log_level: warn
limits: {result_tokens: 5000, result_bytes: 1000000, request_bytes: 2000000}
`,
    files: { '/secrets/sales': 'of sales\n', '/secrets/llm': 'of llm', '/secrets/seal': 's'.repeat(40) },
  })
  const timeoutMs = 10_000
  expect(settings).toMatchObject({
    http: {
      host: '::1',
      port: 9000,
      tls: { certificateFile: '/c', keyFile: '/k', chainFile: '/ch' },
      allowedOrigins: ['https://app.example.com'],
      trustedProxies: ['10.0.0.0/8', '192.0.2.1'],
      authentication: {
        tokenFile: '/t',
        userFile: '/u',
        maximumFailedAttemptsBeforeLockout: 5,
        rateLimitWindowMinutes: 1,
      },
    },
    databases: [
      {
        ...{
          name: 'sales',
          host: 'sales.internal',
          port: 5433,
          database: 'orders',
          user: 'reader',
          password: 'of sales',
        },
        ...{ sslmode: 'verify-full', sslrootcert: '/ca', sslcert: '/crt', sslkey: '/key', allowWrites: true },
        ...{ poolSize: 8, connectTimeoutMs: 2_000, statementTimeoutMs: 60_000, metadataMs: 0 },
        availableToUsers: ['alice', 'bob'],
      },
      { name: 'stock', host: 'stock.internal', database: 'stock' },
    ],
    embedding: { provider: 'voyage', model: 'v', apiKey: 'key-of-voyage', baseUrl: undefined, timeoutMs: 1_500 },
    llm: [
      { provider: 'anthropic', model: 'm', apiKey: 'of llm', maximumTokens: 100, timeoutMs },
      { provider: 'ollama', model: undefined, baseUrl: 'http://ollama:11434', maximumTokens: 100, timeoutMs },
    ],
    knowledgebase: { path: '/kb.db', embedding: { provider: 'ollama', model: 'n', baseUrl: 'http://ollama:11434' } },
    disabled: new Set(['count_rows', 'system_info', 'design-schema']),
    dataDirectory: '/data',
    logLevel: 'warn',
    limits: { resultTokens: 5_000, queryTokens: 5_000, resultBytes: 1_000_000, requestBytes: 2_000_000 },
  })
})

test("precedence: command line, environment, file, then Postgres's own variables", () => {
  const file = 'http: {enabled: true, address: ":1"}\ndatabases: [{host: file, port: 1}]'
  const environment = {
    PGHOST: 'postgres',
    PGUSER: 'postgres-user',
    ESPALIER_DB_HOST: 'environment',
    ESPALIER_HTTP_ADDRESS: ':2',
  }
  const flags = { 'db-host': 'flag', addr: ':3' }
  const hostOf = (given: TestSources) => read(given).databases[0]?.host
  expect(hostOf({ environment: { PGHOST: 'postgres' } })).toBe('postgres')
  expect(hostOf({ file, environment: { PGHOST: 'postgres' } })).toBe('file')
  expect(hostOf({ file, environment })).toBe('environment')
  expect(hostOf({ file, environment, flags })).toBe('flag')
  expect(read({ file, environment, flags }).databases[0]).toMatchObject({ port: 1, user: 'postgres-user' })
  expect(read({ file, environment, flags }).http?.port).toBe(3)
  expect(read({ file, environment }).http?.port).toBe(2)
  expect(hostOf({ file, environment: { ESPALIER_DB_HOST: '' } })).toBe('file')
})

test('a connection string sets all its parts, and a variable overrides each part', () => {
  const uri = 'postgresql://ada:se%20cret@db.internal:6432/sales?sslmode=verify-full&sslrootcert=/ca.pem'
  const ofUri = {
    ...{ host: 'db.internal', port: 6432, database: 'sales', name: 'sales', user: 'ada', password: 'se cret' },
    ...{ sslmode: 'verify-full', sslrootcert: '/ca.pem' },
  }
  expect(read({ environment: { ESPALIER_DB_URI: uri } }).databases).toMatchObject([ofUri])
  const environment = { ESPALIER_DB_1_HOST: 'first', ESPALIER_DB_2_URI: uri, ESPALIER_DB_2_PORT: '5433' }
  expect(read({ environment }).databases).toMatchObject([{ host: 'first' }, { ...ofUri, port: 5433 }])
  const [problem = '', ...more] = problemsOf({ environment: { PGHOST: 'x', ESPALIER_DB_URI: 'secret://nonsense' } })
  expect(problem).toMatch(/ESPALIER_DB_URI.*must be a connection string/)
  expect([problem, ...more].join()).not.toContain('nonsense')
  expect(problemsOf({ environment: { ESPALIER_DB_2_URI: 'secret://nonsense' } })).toEqual([
    expect.stringMatching(/^databases\[1\] \(environment, ESPALIER_DB_2_URI\) must be a connection string/),
  ])
})

test('refuses an unsupported keyword of a connection string, and reads the other keywords', () => {
  const uri = (parameters: string) => ({ ESPALIER_DB_URI: `postgresql://ada@db.internal/sales?${parameters}` })
  const ignoredParameters = 'channel_binding=require&connect_timeout=7&application_name=x&keepalives=1'
  expect(read({ environment: uri(ignoredParameters) }).databases).toMatchObject([
    { channelBinding: 'require', connectTimeoutMs: 7_000 },
  ])
  expect(read({ environment: uri('connect_timeout=0') }).databases).toMatchObject([{ connectTimeoutMs: 10_000 }])
  expect(problemsOf({ environment: uri('sslcrl=/secret') })).toEqual([
    'databases[0] (environment, ESPALIER_DB_URI) must not have the keyword sslcrl, which is not supported',
  ])
  expect(problemsOf({ environment: uri('Pa%24sword=secret') }).join()).toMatch(/must be a connection string[^$]*$/)
  expect(problemsOf({ environment: uri('channel_binding=maybe') }).join()).toContain('databases[0].channel_binding')
})

test('each database has its own pool size and pool lifetimes', () => {
  const environment = {
    ...{ ESPALIER_DB_1_HOST: 'one', ESPALIER_DB_POOL_MIN_CONNS: '3', ESPALIER_DB_POOL_MAX_CONN_IDLE_TIME: '5m' },
    ...{ ESPALIER_DB_2_NAME: 'two', ESPALIER_DB_2_POOL_MAX_CONN_LIFETIME: '2h' },
    ESPALIER_DB_2_POOL_HEALTH_CHECK_PERIOD: '10s',
  }
  expect(read({ environment }).databases).toMatchObject([
    { poolMinimum: 3, poolIdleMs: 300_000, poolLifetimeMs: 3_600_000 },
    { poolMinimum: 0, poolIdleMs: 1_800_000, poolLifetimeMs: 7_200_000, poolCheckMs: 10_000 },
  ])
  const file = 'databases: [{name: a, pool_max_conns: 2, pool_min_conns: 3, pool_max_conn_idle_time: 1}]'
  expect(problemsOf({ file })).toEqual([
    expect.stringMatching(/^databases\[0\]\.pool_max_conn_idle_time .* must be a time like/),
    'databases[0].pool_min_conns (/etc/espalier/mcp.yaml, line 1) must not be more than pool_max_conns, which is 2',
  ])
})

test('a temperature must be valid for every available provider', () => {
  const llm = (provider: string, temperature: string) =>
    `${database}llm: {provider: ${provider}, ${provider}_api_key: k, temperature: ${temperature}}`
  expect(read({ file: llm('openai', '1.5') }).llm).toMatchObject([{ provider: 'openai', temperature: 1.5 }])
  expect(read({ file: `${database}llm: {provider: ollama}` }).llm).toMatchObject([{ temperature: undefined }])
  const environment = { ESPALIER_LLM_TEMPERATURE: '0.2' }
  expect(read({ file: llm('anthropic', '1'), environment }).llm).toMatchObject([{ temperature: 0.2 }])
  for (const wrong of ['2.1', '-1', 'warm'])
    expect(problemsOf({ file: llm('openai', wrong) }).join()).toMatch(
      /^llm\.temperature .* must be a number from 0 to 2$/,
    )
  expect(problemsOf({ file: llm('anthropic', '1.5') }).join()).toMatch(
    /^llm\.temperature .* must be a number from 0 to 1 if Anthropic is available$/,
  )
})

test('the audit log has the text of reads by default', () => {
  expect(read({ file: database }).auditStatements).toBe('reads')
  expect(read({ file: `${database}audit: {statements: none}` }).auditStatements).toBe('none')
  expect(read({ file: database, environment: { ESPALIER_AUDIT_STATEMENTS: 'all' } }).auditStatements).toBe('all')
  expect(problemsOf({ file: `${database}audit: {statements: some}` }).join()).toContain('audit.statements')
})

test('login limits have the documented variables', () => {
  const environment = {
    PGHOST: 'x',
    ESPALIER_HTTP_ENABLED: 'true',
    ESPALIER_AUTH_MAX_FAILED_ATTEMPTS_BEFORE_LOCKOUT: '7',
    ESPALIER_AUTH_RATE_LIMIT_WINDOW_MINUTES: '8',
    ESPALIER_AUTH_RATE_LIMIT_MAX_ATTEMPTS: '9',
  }
  expect(read({ environment }).http?.authentication).toMatchObject({
    maximumFailedAttemptsBeforeLockout: 7,
    rateLimitWindowMinutes: 8,
    rateLimitMaximumAttempts: 9,
  })
})

test('numbered variables define databases, and add to those of the file', () => {
  const environment = {
    ESPALIER_DB_1_HOST: 'one',
    ESPALIER_DB_1_NAME: 'a',
    ESPALIER_DB_2_HOST: 'two',
    ESPALIER_DB_2_NAME: 'b',
  }
  expect(read({ environment }).databases.map(({ name, host }) => `${name}@${host}`)).toEqual(['a@one', 'b@two'])
  const file = 'databases: [{name: x, host: x, user: of-file}, {name: y, host: y}]'
  expect(read({ file, environment: { ESPALIER_DB_2_HOST: 'two' } }).databases).toMatchObject([
    { name: 'x', host: 'x', user: 'of-file' },
    { name: 'y', host: 'two' },
  ])
  expect(read({ file }).databases).toHaveLength(2)
})

test('without authentication the server listens only on this machine, unless an address is set', () => {
  const flags = { http: true, 'no-auth': true } as const
  expect(read({ file: database, flags }).http).toMatchObject({ host: '127.0.0.1', authentication: { enabled: false } })
  expect(read({ file: database, flags: { ...flags, addr: ':8080' } }).http?.host).toBe('*')
  expect(read({ file: database, flags: { http: true } }).http?.host).toBe('*')
})

test.each<[TestSources, string]>([
  [{ file: '' }, 'databases (default) must have a database: in the file, or by ESPALIER_DB_HOST, or by PGHOST'],
  [
    { file: `${database}htp: {enabled: true}` },
    'htp.enabled (/etc/espalier/mcp.yaml, line 2) is not a key; the nearest one is http.enabled',
  ],
  [
    { file: 'databases: [{name: a, hostt: x}]' },
    'databases[0].hostt (/etc/espalier/mcp.yaml, line 1) is not a key; the nearest one is databases[0].host',
  ],
  [
    { file: 'databases: [{name: a}, {name: a}]' },
    'databases[1].name (/etc/espalier/mcp.yaml, line 1) must be another name',
  ],
  [
    { file: 'databases:\n- name: a\n  port: 0' },
    'databases[0].port (/etc/espalier/mcp.yaml, line 3) must be a whole number from 1 to 65535',
  ],
  [
    { environment: { ESPALIER_DB_PORT: 'tcp://10.0.0.1', PGHOST: 'x' } },
    'databases[0].port (environment, ESPALIER_DB_PORT) must be',
  ],
  [{ environment: { ESPALIER_DB_2_HOST: 'x' } }, 'databases[0] (default) must have a host, a database or a name'],
  [{ file: database, flags: { addr: '8080' } }, 'http.address (command line, -addr) must be an address like'],
  [
    { file: 'databases: [{name: a, available_to_users: }]' },
    'databases[0].available_to_users (/etc/espalier/mcp.yaml, line 1) must have a value',
  ],
  [
    { file: `${database}http: {tls: {enabled: }}` },
    'http.tls.enabled (/etc/espalier/mcp.yaml, line 2) must have a value',
  ],
  [{ file: database, flags: { tls: true, http: true } }, 'http.tls.cert_file (default) is required with TLS'],
  [
    { file: 'databases: [{name: a, sslcert: /x}]' },
    'databases[0].sslcert (/etc/espalier/mcp.yaml, line 1) must be given together',
  ],
  [
    { file: 'databases: [{name: a, password: x, password_file: /y}]' },
    'databases[0].password_file (/etc/espalier/mcp.yaml, line 1) must not be given together with databases[0].password',
  ],
  [
    { file: 'databases: [{name: a, password_file: /y}]' },
    'databases[0].password_file (/etc/espalier/mcp.yaml, line 1) names a file that cannot be read (ENOENT)',
  ],
  [{ file: `${database}secret: short` }, 'secret (/etc/espalier/mcp.yaml, line 2) must have 32 to 4096 characters'],
  [
    { file: `${database}embedding: {provider: openai}` },
    'embedding.openai_api_key (default) is required for the provider openai, or a base URL',
  ],
  [{ file: `${database}embedding: {enabled: true}` }, 'embedding.provider (default) is required when'],
  [{ file: `${database}llm: {provider: gemini}` }, 'llm.gemini_api_key (default) is required for'],
  [{ file: `${database}knowledgebase: {enabled: true}` }, 'knowledgebase.database_path (default) is required when'],
  [
    { file: `${database}http: {allowed_origins: ["*"]}` },
    'http.allowed_origins (/etc/espalier/mcp.yaml, line 2) must be origins',
  ],
  [
    { file: `${database}http: {client_ip: {trusted_proxies: [10.0.0.0/33]}}` },
    'http.client_ip.trusted_proxies (/etc/espalier/mcp.yaml, line 2) must be IP',
  ],
  [{ file: 'a: &x 1\nb: *x' }, 'b (/etc/espalier/mcp.yaml, line 2) must not be an alias'],
  [{ file: 'databases: [' }, 'the file (/etc/espalier/mcp.yaml, line 1) is not YAML'],
  [{ file: '- 1' }, 'the file (/etc/espalier/mcp.yaml, line 1) must be a table of keys'],
  [
    { file: `${database}builtins: {tools: {Query: false}}` },
    'builtins.tools.Query (/etc/espalier/mcp.yaml, line 2) is not a key',
  ],
  [{ file: `${database}log_level: loud` }, 'log_level (/etc/espalier/mcp.yaml, line 2) must be one of'],
  [{ file: `${database}-no-auth: true` }, '-no-auth (/etc/espalier/mcp.yaml, line 2)'],
])('%j is refused: %s', (given, message) => {
  expect(problemsOf(given).filter(problem => problem.startsWith(message))).toHaveLength(1)
})

test('reports all errors at once', () => {
  const problems = problemsOf({
    file: 'http: {address: x, auth: {enabled: perhaps}}\nlog_level: loud\nhttpp: 1\ndatabases: [{port: x}]',
    environment: { ESPALIER_DB_SSLMODE: 'sometimes', ESPALIER_AUTH_RATE_LIMIT_MAX_ATTEMPTS: '-1' },
  })
  expect(problems).toHaveLength(8)
})

test('reports no values, because they may be secrets', () => {
  const secret = 'correct-horse-battery'
  const keys = [
    'http.address',
    'databases',
    'llm.timeout',
    'secret',
    'log_level',
    'unknown',
    'embedding.openai_base_url',
  ]
  for (const key of keys) {
    const nested = key.split('.').reduceRight((inner, part) => `{${part}: ${inner}}`, `"${secret}\\u0000"`)
    expect(problemsOf({ file: nested }).join('\n')).not.toContain(secret)
    expect(problemsOf({ file: nested })).not.toEqual([])
  }
  expect(problemsOf({ file: `a: [${secret}, {${secret}: ` }).join('\n')).not.toContain(secret)
})

test('derives the sealing key from the secret; without a secret the key is random', () => {
  const key = (secret?: string) =>
    Buffer.from(
      read({ file: database, environment: secret === undefined ? {} : { ESPALIER_SECRET: secret } }).sealingKey,
    ).toString('hex')
  const [one, two] = ['a'.repeat(32), 'b'.repeat(32)]
  expect(key(one)).toBe(key(one))
  expect(key(one)).not.toBe(key(two))
  expect(key()).not.toBe(key())
})

test('environment variables disable tools, resources and prompts by name', () => {
  const environment = {
    PGHOST: 'x',
    ESPALIER_BUILTIN_TOOL_COUNT_ROWS: 'false',
    ESPALIER_BUILTIN_TOOL_QUERY_DATABASE: 'true',
    ESPALIER_BUILTIN_PROMPT_DESIGN_SCHEMA: 'off',
    ESPALIER_BUILTIN_RESOURCE_SYSTEM_INFO: '0',
  }
  const file = 'builtins: {tools: {query_database: false}}'
  expect(read({ file, environment }).disabled).toEqual(new Set(['count_rows', 'design-schema', 'system_info']))
})

test('commands for credentials need only the paths', () => {
  const given = sources({ environment: { ESPALIER_AUTH_TOKEN_FILE: '/t' }, flags: { 'user-file': '/u' } })
  expect(readCredentialPaths(given)).toMatchObject({ tokenFile: '/t', userFile: '/u' })
  const wrong = sources({ file: 'http: {auth: {token_file: ""}}\nlog_level: loud' })
  expect(() => readCredentialPaths(wrong)).toThrow(/^http\.auth\.token_file /)
})

test('reads any file, or refuses it with a ConfigurationError', () => {
  const words = [
    'http:',
    'databases:',
    '- ',
    'name: ',
    'x',
    '\n',
    '  ',
    '{',
    '}',
    '[',
    ']',
    ',',
    '&a',
    '*a',
    '!!set',
    '? ',
    '1',
    'true',
    '"',
  ]
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(fc.constantFrom(...words)).map(parts => parts.join('')),
  )
  fc.assert(
    fc.property(text, file => {
      try {
        readMcpSettings(sources({ file, environment: { PGHOST: 'x' } }))
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigurationError)
      }
    }),
    { numRuns: 300 },
  )
})

test('names with dots are keys in the named tables', () => {
  const file = `http.enabled: true
http: {tls.enabled: true, tls: {cert_file: /c, key_file: }}
http.tls.key_file: /k
builtins.tools.query_database: false
databases: [{name: main, embedding: }]
limits.result_tokens: 500
limits: {result_tokens: 600}
`
  expect(read({ file })).toMatchObject({
    http: { tls: { certificateFile: '/c', keyFile: '/k' } },
    disabled: new Set(['query_database']),
    limits: { resultTokens: 600 },
  })
  expect(problemsOf({ file: `${file}http.enabld: true\n${'a.'.repeat(9)}b: 1\n__proto__.x: 1\n` })).toEqual([
    'http.enabld (/etc/espalier/mcp.yaml, line 8) is not a key; the nearest one is http.enabled',
    `${'a.'.repeat(9)}b (/etc/espalier/mcp.yaml, line 9) is not a key`,
    '__proto__.x (/etc/espalier/mcp.yaml, line 10) is not a key',
  ])
  expect(problemsOf({ file: `${database}http: 5\nhttp.enabled: true` })).toContain(
    'http (/etc/espalier/mcp.yaml, line 2) must be a table of keys',
  )
})

test('trims list entries, and ignores empty entries', () => {
  const { databases, http } = read({
    file: `databases: [{name: a, available_to_users: [" alice ", "", 5]}, {name: b, available_to_users: [""]}]
http: {enabled: true, allowed_origins: [""], client_ip: {trusted_proxies: [" 10.1.1.1"]}}`,
  })
  expect(databases.map(({ availableToUsers }) => availableToUsers)).toEqual([['alice', '5'], []])
  expect(http).toMatchObject({ allowedOrigins: [], trustedProxies: ['10.1.1.1'] })
})

test('known and unknown keys without a value count as missing', () => {
  const file = `${database}builtins: {tools: {query_database: }}\nother:\nmore: {}\nhttp: {inner: {}}\nlog_level:\n`
  expect(read({ file })).toMatchObject({ disabled: new Set(), logLevel: 'info' })
  expect(problemsOf({ file: `${file}last: []` })).toEqual(['last (/etc/espalier/mcp.yaml, line 7) is not a key'])
})

test.each([
  [{ environment: { ESPALIER_DB_101_HOST: 'h' } }, 'databases (default) must have at most 100 entries'],
  [{ file: 'databases: 5' }, 'databases (/etc/espalier/mcp.yaml, line 1) must be a list of tables'],
])('reports only the unreadable databases if databases cannot be read: %j', (given, problem) => {
  expect(problemsOf(given)).toEqual([problem])
})

test('a URL stores conversations in Postgres; the newest of its passwords is tried first', () => {
  const url = 'postgresql://mcp_state:old@db.internal:5432/espalier?sslmode=verify-full'
  const database = { PGHOST: 'x', PGPASSWORD: 'of another database' }
  const of = (state: object) => read({ file: JSON.stringify({ state }), environment: database }).state
  expect(read({ environment: database }).state).toBeUndefined()
  expect(of({ url })).toMatchObject({ user: 'mcp_state', database: 'espalier', password: 'old' })
  expect(of({ url, password: ['newest', 'older'], sslrootcert: '/ca.pem' })).toMatchObject({
    password: 'newest\nolder',
    tls: { mode: 'verify-full', rootFile: '/ca.pem' },
  })
  expect(of({ url: url.replace(':old', ''), password: 'newest\nolder\n' })?.password).toBe('newest\nolder')
  expect(of({ url: url.replace(':old', '') })?.password).toBeUndefined()
  const wrong = (state: object) => problemsOf({ file: JSON.stringify({ state }), environment: database }).join()
  expect(wrong({ password: 'secret' })).toMatch(/state\.password.*together with state\.url/)
  expect(wrong({ url: `${url}&sslcrl=/secret` })).toMatch(/state\.url.*not supported: sslcrl$/)
  expect(wrong({ url, password: Array(11).fill('secret') })).toMatch(/state\.password.*at most 10/)
  expect(wrong({ url: 'mysql://secret' })).toMatch(/state\.url/)
  expect(wrong({ url, password: 'a\0secret' })).not.toContain('secret')
})

test('replicas need an address and a secret, and do not use TLS between each other', () => {
  const environment = { PGHOST: 'x', ESPALIER_HTTP_PEER_ADDRESS: '10.0.0.7:8080' }
  const secret = 's'.repeat(32)
  const http = (more: object) => JSON.stringify({ http: { enabled: true, ...more } })
  expect(read({ file: http({ peer: { secret } }), environment }).http?.peer).toEqual({
    address: { host: '10.0.0.7', port: 8080 },
    secret,
  })
  expect(read({ file: http({}), environment: { PGHOST: 'x' } }).http?.peer).toBeUndefined()
  expect(problemsOf({ file: http({}), environment }).join()).toMatch(/http\.peer\.secret.*is required/)
  const tls = { enabled: true, cert_file: '/c', key_file: '/k' }
  expect(problemsOf({ file: http({ tls, peer: { secret } }), environment }).join()).toMatch(/http\.tls\.enabled/)
  for (const address of [':8080', '*:8080', '10.0.0.7', '10.0.0.7:0'])
    expect(problemsOf({ file: http({ peer: { secret, address } }) }).join()).toMatch(/http\.peer\.address/)
})
