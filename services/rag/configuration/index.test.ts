import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../configuration/errors.ts'
import { ragSettings } from './index.ts'

const smallest = `
pipelines:
  - name: docs
    tables: [{ table: documents, text_column: content, vector_column: embedding }]
    embedding_llm: { provider: ollama, model: nomic-embed-text }
    rag_llm: { provider: openai, model: gpt-4o-mini, base_url: http://127.0.0.1:9 }
`

type Environment = {
  readonly environment?: Record<string, string>
  readonly files?: Record<string, string>
  readonly onFile?: (path: string) => void
}

const read = (text: string, { environment = {}, files = {}, onFile = () => {} }: Environment = {}) =>
  ragSettings({
    path: '/etc/espalier/espalier-rag.yaml',
    text,
    environment: { HOME: '/home/me', ...environment },
    readFile: path => {
      onFile(path)
      if (Object.hasOwn(files, path)) return files[path] ?? ''
      throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    },
  })

function problems(text: string, around?: Environment): string[] {
  try {
    read(text, around)
    return []
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message.split('\n')
    throw error
  }
}
const pipeline = (more: string) => `${smallest}    ${more}\n`

test('missing keys have their defaults', () => {
  const settings = read(smallest)
  expect(settings.server).toEqual({
    host: '127.0.0.1',
    port: 8080,
    allowedHosts: [],
    requestTimeoutMs: 50_000,
    streamTimeoutMs: 600_000,
    tls: undefined,
    cors: undefined,
  })
  expect(settings.pipelines[0]).toMatchObject({
    name: 'docs',
    description: '',
    tables: [{ schema: undefined, name: 'documents', idColumn: 'id', filter: undefined }],
    embedding: { provider: 'ollama', apiKey: undefined, timeoutMs: 120_000, attemptTimeoutMs: 30_000 },
    completion: { provider: 'openai', apiKey: undefined, headers: {} },
    rerank: undefined,
    ...{ tokenBudget: 1_000, contextTokens: 4_000, topN: 10, systemPrompt: undefined, poolSize: 10 },
    ...{ hybridEnabled: true, vectorWeight: 0.5, minSimilarity: 0, exactTimeoutMs: 5_000 },
    address: {
      hosts: [{ name: 'localhost', address: 'localhost', port: 5432 }],
      user: 'postgres',
      database: 'postgres',
      sessionAttributes: 'any',
      tls: { mode: 'prefer' },
    },
  })
})

test('reports all errors at once, with the nearest key', () => {
  const wrong = `
server: { prot: 8080, tls: { cert_file: a } }
api_keys: { openai: keys/none }
pipelines:
  - name: a/b
    tables: [{ table: t, text_column: c, vectorcolumn: v }]
    search: { vector_weight: 2 }
    rag_llm: { provider: openai }
    database: { host: a, hosts: [b], ssl_cert: c }
  - name: docs
    tables: []
    token_budget: 0
  - name: docs
    embedding_llm: { provider: anthropic, model: m }
    tables: [{ table: t, text_column: c, vector_column: v, filter: { conditions: [{ column: c, operator: "~", value: 1 }] } }]
`
  const found = problems(wrong)
  const keys = found.map(problem => problem.split(' ')[0])
  for (const key of [
    'server.prot',
    'server.tls.key_file',
    'api_keys.openai',
    'pipelines[0].name',
    'pipelines[0].tables[0].vectorcolumn',
    'pipelines[0].tables[0].vector_column',
    'pipelines[0].search.vector_weight',
    'pipelines[0].embedding_llm.provider',
    'pipelines[0].rag_llm.model',
    'pipelines[0].rag_llm.api_key',
    'pipelines[0].database.hosts',
    'pipelines[0].database.ssl_key',
    'pipelines[1].tables',
    'pipelines[1].token_budget',
    'pipelines[2].name',
    'pipelines[2].embedding_llm.provider',
    'pipelines[2].tables[0].filter.conditions[0].operator',
  ])
    expect(keys).toContain(key)
  expect(found.join('\n')).toContain('is not a key; the nearest one is server.port')
  expect(found.join('\n')).toContain('/etc/espalier/espalier-rag.yaml, line 2')
  expect(problems('')).toEqual(['pipelines (default) must have at least one pipeline'])
})

describe('the connection string of a database', () => {
  const withDatabase = (database: string) => `
pipelines:
  - name: docs
    database: ${database}
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m }
    rag_llm: { provider: ollama, model: m }
`
  const addressOf = (database: string, more = {}) => read(withDatabase(database), more).pipelines[0]?.address

  test('is a URI or keywords, in the file, a separate file or the environment', () => {
    const expected = {
      hosts: [{ name: 'db.example', address: 'db.example', port: 5433 }],
      ...{ user: 'reader', database: 'app', password: 'p@ss', sessionAttributes: 'any' },
      ...{ applicationName: 'espalier rag', connectTimeoutMs: 10_000, tls: { mode: 'verify-full' } },
    }
    const url = 'postgresql://reader:p%40ss@db.example:5433/app?sslmode=verify-full'
    expect(addressOf(`{ url: "${url}" }`)).toMatchObject(expected)
    expect(addressOf('{ url_file: url }', { files: { '/etc/espalier/url': `${url}\n` } })).toMatchObject(expected)
    expect(addressOf(`{ url: "$\{SHOP}" }`, { environment: { SHOP: url } })).toMatchObject(expected)
    const keywords = 'host=db.example port=5433 user=reader dbname=app sslmode=verify-full'
    expect(addressOf(`{ url: "${keywords}", password: p@ss }`)).toMatchObject(expected)
    expect(addressOf('{ url: "postgresql://a,b/app?sslrootcert=ca.pem", pool_max_conns: 3 }')).toMatchObject({
      ...{ user: 'postgres', database: 'app', sessionAttributes: 'prefer-standby' },
      tls: { rootFile: '/etc/espalier/ca.pem' },
    })
  })

  test('is refused with its rule, and no message contains it', () => {
    const found = [
      [
        '{ url: "postgresql://me:geheim@h/app", host: other, ssl_mode: require }',
        'database.host must not',
        'database.ssl_mode must not',
      ],
      [
        '{ url: "postgresql://me:geheim@h/app", password: geheim }',
        'database.password must not be given together with a password in url',
      ],
      [
        '{ url: "postgresql://me:geheim@h/app?service=geheim" }',
        'database.url has a keyword that is not supported: service',
      ],
      ['{ url: "http://me:geheim@h/app" }', 'database.url must be a connection string'],
    ] as const
    for (const [database, ...rules] of found) {
      const all = problems(withDatabase(database))
        .join('\n')
        .replaceAll(/ \(\S+, line \d+\)/g, '')
      for (const rule of rules) expect(all).toContain(rule)
      expect(all).not.toContain('geheim')
    }
  })
})

describe('the API key', () => {
  const keyed = `
api_keys: { openai: keys/server }
defaults: { api_keys: { openai: keys/defaults }, rag_llm: { provider: openai, model: m } }
pipelines:
  - name: docs
    api_keys: { openai: keys/pipeline }
    tables: [{ table: t, text_column: c, vector_column: v }]
    embedding_llm: { provider: ollama, model: m }
    rag_llm: { api_key: own }
`
  const files = {
    '/etc/espalier/keys/server': 'server\n',
    '/etc/espalier/keys/defaults': 'defaults\n',
    '/etc/espalier/keys/pipeline': 'pipeline\n',
    '/home/me/.openai-api-key': 'home\n',
  }
  const without = (text: string, ...parts: string[]) => parts.reduce((rest, part) => rest.replace(part, ''), text)
  const levels = [
    'rag_llm: { api_key: own }',
    'api_keys: { openai: keys/pipeline }',
    'api_keys: { openai: keys/defaults }, ',
    'api_keys: { openai: keys/server }',
  ]
  const environment = { OPENAI_API_KEY: 'environment' }

  test.each([
    ['own', 0, environment],
    ['pipeline', 1, environment],
    ['defaults', 2, environment],
    ['server', 3, environment],
    ['environment', 4, environment],
    ['home', 4, {}],
  ])('comes from the first source that has a key: %s', (key, removed, variables) => {
    const text = without(keyed, ...levels.slice(0, removed))
    const settings = read(text, { environment: variables, files })
    expect(settings.pipelines[0]?.completion.apiKey).toBe(key)
  })

  test('is not required with a base URL; otherwise a missing key is reported', () => {
    const text = without(keyed, ...levels)
    expect(problems(text)).toEqual([expect.stringMatching(/^pipelines\[0\]\.rag_llm\.api_key .*must be given without/)])
    expect(problems(text.replace('model: m }', 'model: m, base_url: http://127.0.0.1:1 }'))).toEqual([])
  })

  test('in a file is watched, also before the file exists', () => {
    const paths: string[] = []
    read(keyed, { files, onFile: path => paths.push(path) })
    expect(paths).toEqual(expect.arrayContaining(['/etc/espalier/keys/server', '/home/me/.voyage-api-key']))
  })

  test('is in no message', () => {
    const text = smallest.replace(
      'base_url: http://127.0.0.1:9',
      'api_key: "sk-\\u0007secret", api_key_file: x, modle: y',
    )
    expect(problems(text).length).toBeGreaterThan(1)
    expect(problems(text).join()).not.toContain('secret')
  })
})

test('a pipeline inherits a complete model unless it names another provider', () => {
  const defaults = (own: string) => `
defaults:
  llm_headers: { X-Team: search, X-Kind: any }
  embedding_llm: { provider: openai, model: small, base_url: http://127.0.0.1:1, headers: { x-kind: own }, request_timeout: 7s }
${smallest.replace('embedding_llm: { provider: ollama, model: nomic-embed-text }', own)}`
  const embeddingOf = (own: string) => read(defaults(own)).pipelines[0]?.embedding
  const headers = { 'x-team': 'search', 'x-kind': 'own' }
  expect(embeddingOf('')).toMatchObject({ model: 'small', baseUrl: 'http://127.0.0.1:1', headers, timeoutMs: 7_000 })
  expect(embeddingOf('embedding_llm: { model: large }')).toMatchObject({
    model: 'large',
    baseUrl: 'http://127.0.0.1:1',
  })
  expect(embeddingOf('embedding_llm: { provider: ollama, model: m }')).toMatchObject({
    baseUrl: undefined,
    headers: { 'x-team': 'search', 'x-kind': 'any' },
    timeoutMs: 7_000,
  })
})

test('a database has hosts, files relative to the configuration, and a password from its file', () => {
  const text = pipeline(`database:
      hosts: [a, "b:6432", "[::1]:7", { host: c, port: 8 }, /run/postgresql]
      port: 5433
      target_session_attrs: prefer-standby
      database: d
      username: u
      password_file: secrets/password
      ssl_mode: verify-full
      ssl_root_ca: ca.pem
      ssl_cert: /abs/cert.pem
      ssl_key: ~/key.pem`)
  const settings = read(text, { files: { '/etc/espalier/secrets/password': 'p w\n' } })
  expect(settings.pipelines[0]?.address).toMatchObject({
    hosts: [
      { name: 'a', port: 5433 },
      { name: 'b', port: 6432 },
      { name: '::1', port: 7 },
      { name: 'c', port: 8 },
      { name: '/run/postgresql', port: 5433 },
    ],
    ...{ user: 'u', database: 'd', password: 'p w', sessionAttributes: 'prefer-standby' },
    tls: {
      mode: 'verify-full',
      rootFile: '/etc/espalier/ca.pem',
      certificateFile: '/abs/cert.pem',
      keyFile: '/home/me/key.pem',
    },
  })
})

test('filters are text or conditions, and tables may name their schema', () => {
  const tables = (filter: string) => smallest.replace('table: documents,', `table: app.documents, filter: ${filter},`)
  const filterOf = (filter: string) => read(tables(filter)).pipelines[0]?.tables[0]
  expect(filterOf('"lang = \'en\'"')).toMatchObject({
    schema: 'app',
    name: 'documents',
    filter: { kind: 'sql', text: "lang = 'en'" },
  })
  expect(filterOf('{ conditions: [{ column: a, operator: IN, value: [1] }] }')?.filter).toEqual({
    kind: 'conditions',
    filter: { conditions: [{ column: 'a', operator: 'IN', value: [1] }], logic: 'AND' },
  })
  // Ignoring the key could lift a restriction.
  expect(problems(tables(''))).toEqual([expect.stringContaining('filter')])
})

test('reranking is off without its table, and limits the documents by top_k', () => {
  const settings = read(pipeline('rerank: { model: rerank-2.5, base_url: http://127.0.0.1:1, top_k: 3 }'))
  expect(settings.pipelines[0]).toMatchObject({ rerank: { provider: 'voyage', depth: 50 }, topN: 3 })
})

test('CORS is off by default, and needs an origin', () => {
  const server = (cors: string) => `server: { cors: ${cors} }\n${smallest}`
  expect(problems(server('{ enabled: true }'))).toEqual([expect.stringContaining('server.cors.allowed_origins')])
  expect(read(server('{ enabled: true, allowed_origins: [https://a.example] }')).server.cors).toEqual({
    allowedOrigins: ['https://a.example'],
  })
  expect(read(server('{ allowed_origins: ["*"] }')).server.cors).toBeUndefined()
})
