/** The rendered configuration of each type is pinned. Each server's own loader reads it back for any user input. */
import { createHash } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { serviceConfig } from '../../../crds/services.ts'
import { isPassword } from '../../../services/authentication/password.ts'
import { readMcpSettings } from '../../../services/mcp/configuration/index.ts'
import { parseEntries } from '../../../services/mcp/credentials/document.ts'
import { tokenForm, userForm } from '../../../services/mcp/credentials/files.ts'
import { readBridgeConfiguration } from '../../../services/mcp-bridge/configuration.ts'
import { ragSettings } from '../../../services/rag/configuration/index.ts'
import { loadConfiguration } from '../../../services/rest/configuration/index.ts'
import { configurationDirectory, type RenderedService, renderService, type ServiceInput } from './index.ts'
import { userFileOf } from './mcp-credentials.ts'

const resources = { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '384Mi' } }
const inputOf = (config: object, keys: Record<string, string> = {}): ServiceInput => ({
  config: serviceConfig.parse({ serviceId: '0123abcd', ...config }),
  keys,
  minted: { token: 'minted-token', password: 'minted-password' },
  state: { password: 'state-password' },
  database: {
    host: 'db-0.tenant.svc',
    port: 5432,
    name: 'app',
    authority: 'PEM',
    passwords: { admin: ['a'], app: ['new-app', 'old-app'], app_read_only: ['new-reader', 'old-reader'] },
  },
  publicUrl: 'https://app-1.db.example:8443/mcp',
  settings: {
    resources: { mcp: resources, rest: resources, rag: resources },
    baseUrls: { openai: 'https://proxy.example/v1' },
    trustedProxies: ['10.0.0.0/8'],
  },
})

type WithFiles = Omit<RenderedService, 'files'> & { files: Readonly<Record<string, string>> }

async function rendered(input: ServiceInput): Promise<WithFiles> {
  const rendering = renderService(input)
  if (rendering.kind === 'refused') throw new Error(rendering.message)
  return { ...rendering.service, files: await rendering.service.files() }
}

/** The container's environment, as the runtime creates it with the pod's address. */
const environmentOf = (service: WithFiles, name: string): Record<string, string> => ({
  POD_IP: '127.3.2.1',
  ...Object.fromEntries(
    Object.entries(service.containers.find(one => one.name === name)?.environment ?? {}).map(([key, value]) => [
      key,
      value.replaceAll('$(POD_IP)', '127.3.2.1'),
    ]),
  ),
})

const directory = join(tmpdir(), `espalier-rendered-${process.pid}`)
mkdirSync(directory)
afterAll(() => rmSync(directory, { recursive: true }))
const noFile = () => {
  throw new Error('no file is read')
}

const readRest = (service: WithFiles) =>
  loadConfiguration({
    file: service.files['rest.conf'] ?? '',
    environment: environmentOf(service, 'rest'),
    readFile: noFile,
  })
const readRag = (service: WithFiles) =>
  ragSettings({
    path: `${configurationDirectory}/rag.yaml`,
    text: service.files['rag.yaml'] ?? '',
    environment: { HOME: '/nowhere', ...environmentOf(service, 'rag') },
    readFile: noFile,
  })
const readTools = (service: WithFiles) =>
  readMcpSettings({
    file: { text: service.files['mcp.yaml'] ?? '' },
    environment: environmentOf(service, 'tools'),
    flags: new Map([['http', true]]),
    readFile: noFile,
  })
function readBridge(service: WithFiles) {
  const path = join(directory, 'bridge.yaml')
  writeFileSync(path, service.files['bridge.yaml'] ?? '')
  return readBridgeConfiguration(path, environmentOf(service, 'bridge'))
}

const llm = { provider: 'openai', model: 'small' }
const examples = {
  mcp: inputOf(
    { serviceType: 'mcp', mcp: { allowWrites: true, embeddingProvider: 'voyage', embeddingModel: 'voyage-3' } },
    { embedding_api_key: 'key', init_users: 'alice:pass:word' },
  ),
  rest: inputOf(
    { serviceType: 'rest', rest: { dbSchemas: 'api, public', dbAnonRole: 'web_anon', jwtAudience: 'us' } },
    { jwt_secret: '@/etc/passwd is a secret of 32 and more' },
  ),
  rag: inputOf(
    {
      serviceType: 'rag',
      rag: {
        embeddingLlm: llm,
        completionLlm: { provider: 'anthropic', model: 'large' },
        pipelines: [{ name: 'docs', tables: [{ table: 'docs', textColumn: 'body', vectorColumn: 'embedding' }] }],
        cors: { enabled: true },
      },
    },
    { embedding_llm_api_key: 'embedding key', completion_llm_api_key: 'completion key' },
  ),
}

test.each(Object.entries(examples))('%s is rendered as in the earlier version', async (type, input) => {
  const { files, ...service } = await rendered(input)
  const shown = Object.entries(files).map(([name, text]) => `--- ${name}\n${text}`)
  await expect(`${shown.join('\n')}\n--- pod\n${JSON.stringify(service, undefined, 2)}\n`).toMatchFileSnapshot(
    `testing/${type}.txt`,
  )
})

test('the tool server and its bridge can read their rendered files', async () => {
  const service = await rendered(examples.mcp)
  const settings = readTools(service)
  expect(settings.databases).toMatchObject([
    { host: 'db-0.tenant.svc', user: 'app', password: 'new-app\nold-app', sslmode: 'verify-full', allowWrites: true },
  ])
  expect(settings.databases[0]?.sslrootcert).toBe(`${configurationDirectory}/authority.crt`)
  expect(settings.embedding).toMatchObject({ provider: 'voyage', model: 'voyage-3', apiKey: 'key' })
  expect(settings.http).toMatchObject({
    ...{ host: '127.3.2.1', port: 8080, trustedProxies: ['10.0.0.0/8'] },
    peer: { address: { host: '127.3.2.1', port: 8080 } },
  })
  expect(settings.state).toMatchObject({
    ...{ hosts: [{ name: 'db-0.tenant.svc' }], user: 'mcp_state', database: 'espalier', password: 'state-password' },
    tls: { mode: 'verify-full' },
  })
  const bridge = readBridge(service)
  expect(bridge).toMatchObject({
    host: '127.3.2.1',
    port: 8090,
    publicUrl: 'https://app-1.db.example:8443',
    authentication: { type: 'oauth' },
    subprocess: { command: 'espalier', args: ['mcp', '-config', `${configurationDirectory}/mcp.yaml`] },
    oauth: {
      issuer: 'https://app-1.db.example:8443',
      signing: { kind: 'state' },
      state: { kind: 'postgres', address: { user: 'mcp_state', database: 'espalier', password: 'state-password' } },
    },
    peer: { address: { host: '127.3.2.1', port: 8090 } },
  })
  const tokens = parseEntries(tokenForm, service.files['tokens.yaml'] ?? '')
  expect(tokens.get('initial-1')?.hash).toBe(createHash('sha256').update('minted-token').digest('hex'))
  const users = parseEntries(userForm, service.files['users.yaml'] ?? '')
  expect(await isPassword('pass:word', users.get('alice')?.password_hash)).toBe(true)
  expect((await rendered(examples.mcp)).files).toEqual(service.files)
})

test('replicas authenticate to each other with a secret that no client can derive from its token', async () => {
  const peerOf = async (input: ServiceInput) => readTools(await rendered(input)).http?.peer?.secret
  const secret = await peerOf(examples.mcp)
  expect(readBridge(await rendered(examples.mcp)).peer?.secret).toBe(secret)
  expect(await peerOf({ ...examples.mcp, state: { password: 'another' } })).not.toBe(secret)
})

test('pods that keep their own conversations have no replicas, and their state on the volume', async () => {
  const service = await rendered({ ...examples.mcp, state: undefined })
  expect(readTools(service)).toMatchObject({ state: undefined, http: { peer: undefined } })
  expect(readBridge(service)).toMatchObject({
    peer: undefined,
    oauth: { signing: { path: '/var/lib/espalier/mcp/oauth-keys.json' }, state: { kind: 'sqlite' } },
  })
})

test('only the newest of several passwords changes the digest', async () => {
  for (const input of [inputOf({ serviceType: 'mcp' }), examples.rag]) {
    const before = await rendered(input)
    const { passwords } = input.database
    const forgotten = await rendered({
      ...input,
      database: {
        ...input.database,
        passwords: { ...passwords, app: passwords.app.slice(0, 1), app_read_only: passwords.app_read_only.slice(0, 1) },
      },
    })
    expect(forgotten.essential).toEqual(before.essential)
    expect(forgotten.files).not.toEqual(before.files)
  }
})

const usersOf = (count: number) => Array.from({ length: count }, (_, index) => `user${index}:password`).join(',')

test('passwords of users are hashed off the event loop', async () => {
  const users = [['alice', 'password'] as const, ['bob', 'password'] as const]
  const hashes = userFileOf({ users, tokens: [] }, 'salt')
  const first = await Promise.race([hashes, new Promise(resolve => setImmediate(() => resolve('another event')))])
  expect(first).toBe('another event')
  expect((await hashes).hashes.map(({ username }) => username)).toEqual(['alice', 'bob'])
})

test.each<[string, object, Record<string, string>, string[]]>([
  ['mcp', { serviceType: 'mcp', mcp: { embeddingProvider: 'openai', embeddingModel: 'm' } }, {}, ['embedding_api_key']],
  ['mcp', { serviceType: 'mcp' }, { init_users: 'alice' }, ['init_users']],
  ['mcp', { serviceType: 'mcp' }, { init_tokens: 'good, not good' }, ['init_tokens']],
  ['mcp', { serviceType: 'mcp' }, { init_tokens: 'token,'.repeat(33) }, ['init_tokens']],
  ['mcp', { serviceType: 'mcp' }, { init_users: usersOf(33) }, ['init_users']],
  ['rag', examples.rag.config, { embedding_llm_api_key: 'k' }, ['completion_llm_api_key']],
  [
    'rag',
    {
      ...examples.rag.config,
      rag: {
        ...examples.rag.config.rag,
        pipelines: [{ ...examples.rag.config.rag?.pipelines[0], completionLlm: llm }],
      },
    },
    examples.rag.keys,
    ['pipelines.docs.completion_llm_api_key'],
  ],
])("%s without a usable key is refused with the field's name: %#", (type, config, keys, fields) => {
  const rendering = renderService(inputOf(config, keys))
  expect(rendering).toMatchObject({ kind: 'refused', type, fields })
})

/** Text that would break a file without escaping. */
const anyText = (maxLength: number) =>
  fc
    .oneof(
      fc.string({ unit: 'grapheme', maxLength }),
      fc
        .array(
          fc.constantFrom(
            `\${HOME}`,
            `$\${A}`,
            '$(HOME)',
            '$',
            '\n',
            'db-uri = "',
            '"',
            "'",
            '\\',
            '@',
            '#',
            ': ',
            'ß',
          ),
        )
        .map(parts => parts.join('')),
    )
    .map(text => text.slice(0, maxLength).toWellFormed())
const filled = (maxLength: number) => anyText(maxLength).map(text => `x${text}`.slice(0, maxLength).toWellFormed())
const printable = (text: string) => !/\p{Cc}/u.test(text) && Buffer.byteLength(text) <= 63
const column = filled(30).filter(printable)

test('rest reads back any configuration', async () => {
  const configs = fc.record({
    audience: filled(50).filter(text => !text.includes(':') && printable(text)),
    anon: column,
    secret: anyText(200).map(text => `${text}${'s'.repeat(32)}`),
    schema: column.filter(text => !/[,"]/.test(text) && text.trim() === text),
    maxRows: fc.integer({ min: 1, max: 10_000 }),
    password: filled(60).filter(text => !text.includes('\0') && !text.includes('\n')),
  })
  await fc.assert(
    fc.asyncProperty(configs, async ({ audience, anon, secret, schema, maxRows, password }) => {
      const rest = { dbSchemas: schema, dbAnonRole: anon, jwtAudience: audience, maxRows }
      const input = inputOf({ serviceType: 'rest', rest }, { jwt_secret: secret })
      const read = readRest(await rendered({ ...input, minted: { password } }))
      expect(read).toMatchObject({ dbSchemas: [schema], dbAnonRole: anon, dbMaxRows: maxRows, jwtAud: audience })
      expect(Buffer.from(read.jwtSecret ?? '').toString()).toBe(secret)
      expect(read.serverHost).toBe('127.3.2.1')
      expect(read.dbConfig).toBe(false)
      expect(read.dbUri).toBe(
        `postgresql://authenticator:${encodeURIComponent(password)}@db-0.tenant.svc:5432/app?sslmode=verify-full`,
      )
    }),
  )
})

test('rag reads back any configuration', async () => {
  const configs = fc.record({
    prompt: filled(300),
    description: anyText(300),
    filter: filled(200),
    text: column,
    model: filled(50).filter(printable),
    key: filled(50).filter(text => !/[^\x21-\x7e]/.test(text)),
    weight: fc.integer({ min: 0, max: 100 }).map(value => value / 100),
  })
  await fc.assert(
    fc.asyncProperty(configs, async ({ prompt, description, filter, text, model, key, weight }) => {
      const table = { table: 'app.docs', textColumn: text, vectorColumn: 'v', filter }
      const pipeline = { name: 'docs', tables: [table], description, systemPrompt: prompt, vectorWeight: weight }
      const rag = { embeddingLlm: { provider: 'openai', model }, completionLlm: llm, pipelines: [pipeline] }
      const keys = { embedding_llm_api_key: key, completion_llm_api_key: key }
      const [read] = readRag(await rendered(inputOf({ serviceType: 'rag', rag }, keys))).pipelines
      expect(read).toMatchObject({
        description,
        systemPrompt: prompt,
        vectorWeight: weight,
        embedding: { provider: 'openai', model, apiKey: key, baseUrl: 'https://proxy.example/v1' },
        tables: [{ schema: 'app', name: 'docs', textColumn: text, idColumn: 'id', filter: { text: filter.trim() } }],
        address: { user: 'app_read_only', password: 'new-reader\nold-reader', tls: { mode: 'verify-full' } },
      })
    }),
  )
})

test('the servers of mcp read back any configuration', async () => {
  const configs = fc.record({
    model: filled(50).filter(printable),
    key: filled(50),
    tokens: fc.array(fc.stringMatching(/^[A-Za-z0-9._~+/-]{1,60}$/), { maxLength: 3 }),
    password: filled(60).filter(text => !text.includes('\0')),
  })
  await fc.assert(
    fc.asyncProperty(configs, async ({ model, key, tokens, password }) => {
      const mcp = { embeddingProvider: 'openai', embeddingModel: model } as const
      const keys = { embedding_api_key: key, init_tokens: tokens.join(',') }
      const input = inputOf({ serviceType: 'mcp', mcp }, keys)
      const passwords = { ...input.database.passwords, app_read_only: [password] }
      const service = await rendered({ ...input, database: { ...input.database, passwords } })
      expect(readTools(service)).toMatchObject({
        embedding: { provider: 'openai', model, apiKey: key },
        databases: [{ user: 'app_read_only', password, allowWrites: false }],
      })
      const bridge = readBridge(service)
      const { authentication } = bridge
      expect(authentication.type === 'bearer' ? authentication.tokens.length : 0).toBe(Math.max(1, tokens.length))
    }),
    { numRuns: 50 },
  )
})
