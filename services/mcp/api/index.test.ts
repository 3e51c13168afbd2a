import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { closeServer, listen } from '../../http/listen.ts'
import { makeServer } from '../../http/server.ts'
import { scopes } from '../../mcp-protocol/scopes.ts'
import { sendRequest, type TestRequest } from '../../testing/client.ts'
import { SqliteConversations } from '../conversations/sqlite.ts'
import type { ConversationStore } from '../conversations/store.ts'
import type { Caller } from '../core/caller.ts'
import { recordingLogger } from '../credentials/testing/files.ts'
import type { Authentication } from '../credentials/types.ts'
import { createEntries, type DatabaseEntries } from '../database/entries.ts'
import { databaseOf } from '../testing/calls.ts'
import { conversationRoutes } from './conversations.ts'
import { databaseRoutes } from './databases.ts'
import { ApiError } from './errors.ts'
import { createApi } from './index.ts'
import type { ApiRoute } from './route.ts'

const requestBytes = 10_485_760

const user = (username: string, databases?: string[]): Caller => ({
  kind: 'user',
  principal: `user:${username}`,
  username,
  databases,
  scopes: new Set(scopes),
  session: `user:session of ${username}`,
})
const token = (name: string, databases?: string[]): Caller => ({
  ...user(name, databases),
  kind: 'token',
  principal: `token:${name}`,
  username: undefined,
  session: `token:${name}`,
})
const callers: Record<string, Caller> = {
  alice: user('alice', ['sales', 'stock']),
  bob: user('bob'),
  nobody: user('nobody', []),
  machine: token('machine'),
  bound: token('bound', ['stock']),
  powerless: { ...user('powerless'), scopes: new Set() },
}

const authentication: Authentication = {
  authenticate: async authorization => {
    if (authorization === undefined) return { kind: 'refused', isMissing: true }
    const name = /^Bearer (\w+)$/.exec(authorization)?.[1] ?? ''
    if (name === 'guesser') return { kind: 'limited', retryAfterSeconds: 7 }
    const caller = Object.hasOwn(callers, name) ? callers[name] : undefined
    return caller === undefined ? { kind: 'refused', isMissing: false } : { kind: 'caller', caller }
  },
}

const named = (name: string) => ({
  ...databaseOf({ port: 5432 }),
  name,
  host: `${name}.internal`,
  password: 'of the database',
})
const databases = ['sales', 'stock', 'staff'].map(named)
const faults: ApiRoute[] = [
  {
    method: 'GET',
    path: '/api/faulty',
    answer: async () => {
      throw new Error('with a password in it')
    },
  },
  {
    method: 'POST',
    path: '/api/teapot/{id}',
    answer: async ({ body, parameters, query }) => {
      if (body === 'fail') throw new ApiError(502, 'the provider does not answer')
      return { status: 200, body: { body, id: parameters.id, query: query.get('q') } }
    },
  },
]

let directory: string
let conversations: ConversationStore
let entries: DatabaseEntries
let lines: string[]
const servers: Server[] = []
let port: number
let openPort: number

async function serve(authenticated: Authentication | undefined): Promise<number> {
  const recording = recordingLogger()
  lines = recording.lines
  const fromEntries: DatabaseEntries = {
    available: caller => entries.available(caller),
    current: caller => entries.current(caller),
    select: (caller, name) => entries.select(caller, name),
    hasWritable: () => entries.hasWritable(),
  }
  const own = authenticated === undefined ? [] : conversationRoutes(conversations)
  const server = makeServer({
    product: 'test',
    maximumBodyBytes: requestBytes,
    maximumHeaderBytes: 16_384,
    rules: () => ({ cors: { origins: [], methods: '', exposedHeaders: '' }, traceHeader: undefined }),
    handle: createApi({
      routes: [...databaseRoutes(fromEntries), ...own, ...faults],
      authentication: authenticated,
      logger: recording.logger,
    }),
    renderError: () => ({ status: 599, headers: [], body: undefined }),
  })
  servers.push(server)
  // The address is not a socket path.
  return ((await listen(server, { host: '127.0.0.1', port: 0 })) as AddressInfo).port
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-mcp-api-'))
  conversations = new SqliteConversations(join(directory, 'data'))
  openPort = await serve(undefined)
  port = await serve(authentication)
})
afterAll(async () => {
  await Promise.all(servers.map(server => closeServer(server, 100)))
  conversations.close()
  rmSync(directory, { recursive: true, force: true })
})
beforeEach(() => {
  entries = createEntries(() => databases)
})

type ApiOptions = {
  as?: string
  method?: string
  json?: unknown
  headers?: Record<string, string>
  body?: string | Buffer
}

async function api(path: string, { as = 'alice', method, json, headers, body }: ApiOptions = {}, at = port) {
  const sent = json === undefined ? body : JSON.stringify(json)
  const httpRequest: TestRequest = {
    method: method ?? (sent === undefined ? 'GET' : 'POST'),
    headers: {
      ...(as === '' ? {} : { Authorization: `Bearer ${as}` }),
      ...(sent === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(sent === undefined ? {} : { body: sent }),
  }
  const answer = await sendRequest(at, path, httpRequest)
  expect(answer.headers['content-type']).toBe('application/json')
  return { status: answer.status, headers: answer.headers, body: JSON.parse(answer.text) }
}

const everyPath = ['/api/databases', '/api/user/info', '/api/conversations', '/api/conversations/x', '/api/faulty']

test.each(everyPath)('%s refuses a request without a bearer token', async path => {
  const missing = await api(path, { as: '' })
  expect(missing).toMatchObject({ status: 401, body: { error: expect.any(String) } })
  expect(missing.headers['www-authenticate']).toBe('Bearer')
  for (const as of ['wrong', 'constructor']) {
    const wrong = await api(path, { as })
    expect(wrong).toMatchObject({ status: 401, body: missing.body })
    expect(wrong.headers['www-authenticate']).toBe('Bearer error="invalid_token"')
  }
  expect(await api(path, { as: 'powerless' })).toMatchObject({ status: 403 })
  const limited = await api(path, { as: 'guesser' })
  expect(limited).toMatchObject({ status: 429, headers: { 'retry-after': '7' }, body: { error: expect.any(String) } })
})

test('errors of /api/databases have success: false, other errors do not', async () => {
  expect((await api('/api/databases', { as: '' })).body).toEqual({ success: false, error: expect.any(String) })
  expect((await api('/api/databases/select', { as: '', json: {} })).body).toEqual({
    success: false,
    error: expect.any(String),
  })
  expect((await api('/api/user/info', { as: '' })).body).toEqual({ error: expect.any(String) })
})

test('lists the databases that the user may use, without passwords', async () => {
  const { status, body } = await api('/api/databases')
  expect(status).toBe(200)
  expect(body).toEqual({
    databases: ['sales', 'stock'].map(name => ({
      name,
      host: `${name}.internal`,
      port: 5432,
      database: 'postgres',
      user: 'postgres',
      sslmode: 'disable',
    })),
    current: 'sales',
  })
})

test.each([
  ['bob', ['sales', 'stock', 'staff']],
  ['nobody', []],
  ['machine', ['sales', 'stock', 'staff']],
  ['bound', ['stock']],
])('%s sees %j', async (as, names) => {
  const { body } = await api('/api/databases', { as })
  expect(body.databases.map(({ name }: { name: string }) => name)).toEqual(names)
  expect(body.current).toBe(names[0] ?? '')
})

test('without authentication all databases are listed, and there are no conversations', async () => {
  const { body } = await api('/api/databases', { as: '' }, openPort)
  expect(body.databases).toHaveLength(3)
  expect(await api('/api/conversations', { as: '' }, openPort)).toMatchObject({ status: 404 })
  expect((await api('/api/user/info', { as: '' }, openPort)).body).toEqual({ authenticated: false, username: 'anyone' })
})

test('a session that selects a database does not change other sessions', async () => {
  const selected = await api('/api/databases/select', { json: { name: 'stock' } })
  expect(selected).toMatchObject({
    status: 200,
    body: { success: true, current: 'stock', message: expect.any(String) },
  })
  expect((await api('/api/databases')).body.current).toBe('stock')
  expect((await api('/api/databases', { as: 'bob' })).body.current).toBe('sales')
})

test.each<[string, unknown, number]>([
  ['alice', {}, 400],
  ['alice', { name: '' }, 400],
  ['alice', { name: 1 }, 400],
  ['alice', [], 400],
  ['alice', null, 400],
  ['alice', 'sales', 400],
  ['alice', { name: 'staff' }, 403],
  ['nobody', { name: 'sales' }, 403],
  ['bound', { name: 'sales' }, 403],
  ['alice', { name: 'none' }, 404],
  ['bound', { name: 'none' }, 404],
])('%s selects with %j: %i', async (as, json, status) => {
  const answer = await api('/api/databases/select', { as, json })
  expect(answer).toMatchObject({ status, body: { success: false, error: expect.any(String) } })
  if (status === 400) expect(answer.body.error).toMatch(/name|body|object/i)
})

test('/api/user/info returns the caller', async () => {
  expect((await api('/api/user/info')).body).toEqual({ authenticated: true, username: 'alice' })
  expect((await api('/api/user/info', { as: 'machine' })).body).toEqual({
    authenticated: true,
    username: 'token:machine',
  })
})

test.each([
  ['/api', 404, undefined],
  ['/api/', 404, undefined],
  ['/api/databases/', 404, undefined],
  ['/api/conversations/a/b', 404, undefined],
  ['/api/conversations/%', 404, undefined],
  [`/api/conversations/${'x'.repeat(300)}`, 404, undefined],
  ['/api/databases/select', 405, 'POST'],
  ['/api/teapot/1', 405, 'POST'],
])('GET %s is %i', async (path, status, allow) => {
  const answer = await api(path)
  expect(answer.status).toBe(status)
  expect(answer.headers.allow).toBe(allow)
})

test.each([
  ['/api/databases', 'GET'],
  ['/api/user/info', 'GET'],
  ['/api/conversations', 'GET, POST, DELETE'],
  ['/api/conversations/x', 'GET, PUT, PATCH, DELETE'],
])('another method at %s causes a 405 with the allowed methods', async (path, allow) => {
  expect(await api(path, { method: 'OPTIONS' })).toMatchObject({ status: 405, headers: { allow } })
})

test('the route receives path, query and body', async () => {
  const { body } = await api('/api/teapot/a%20b?q=1%262', { json: [1, { a: null }] })
  expect(body).toEqual({ body: [1, { a: null }], id: 'a b', query: '1&2' })
})

test.each<[string, ApiOptions, number]>([
  ['no JSON', { body: '{"name":' }, 400],
  ['another content type', { body: 'name=x', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }, 415],
  ['too much', { body: Buffer.alloc(requestBytes + 1, 32) }, 413],
])('a body with %s is refused', async (_, options, status) => {
  for (const path of ['/api/databases/select', '/api/conversations', '/api/teapot/1'])
    expect(await api(path, options)).toMatchObject({ status, body: { error: expect.any(String) } })
})

test('accepts a body of ten megabytes', async () => {
  const content = 'x'.repeat(requestBytes - 200)
  const { status } = await api('/api/conversations', { as: 'bob', json: { messages: [{ role: 'user', content }] } })
  expect(status).toBe(201)
  await api('/api/conversations?all=true', { as: 'bob', method: 'DELETE' })
})

test('logs an internal error, and sends the error of a route to the client', async () => {
  const before = lines.length
  expect(await api('/api/faulty')).toMatchObject({ status: 500, body: { error: 'internal error' } })
  expect(lines.slice(before).join('')).toContain('with a password in it')
  const refused = await api('/api/teapot/1', { json: 'fail' })
  expect(refused).toMatchObject({ status: 502, body: { error: 'the provider does not answer' } })
})

const userMessage = (content: string, more = {}) => ({
  role: 'user',
  content,
  timestamp: '2026-01-01T00:00:00Z',
  ...more,
})

test('a conversation is created, changed, listed and deleted', async () => {
  const content = { provider: 'anthropic', model: 'm', connection: 'sales' }
  const messages = [
    userMessage('How many orders?'),
    { role: 'assistant', content: '7', provider: 'anthropic', model: 'm' },
  ]
  const { status, body: made } = await api('/api/conversations', { json: { ...content, messages } })
  expect(status).toBe(201)
  expect(made).toMatchObject({ ...content, username: 'alice', title: 'How many orders?', messages })
  expect(made.id).toMatch(/^conv_[\w-]{24}$/)
  expect(Date.parse(made.messages[1].timestamp)).toBeGreaterThan(Date.now() - 60_000)
  expect((await api(`/api/conversations/${made.id}`)).body).toEqual(made)

  const renamed = await api(`/api/conversations/${made.id}`, { method: 'PATCH', json: { title: ' Orders ' } })
  expect(renamed).toMatchObject({ status: 200, body: { success: true } })
  const replacement = [userMessage('And now?')]
  const put = await api(`/api/conversations/${made.id}`, {
    method: 'PUT',
    json: { ...content, connection: 'stock', messages: replacement },
  })
  expect(put).toMatchObject({
    status: 200,
    body: { id: made.id, title: 'Orders', connection: 'stock', messages: replacement, created_at: made.created_at },
  })
  expect((await api(`/api/conversations/${made.id}`)).body).toEqual(put.body)
  const listed = await api('/api/conversations')
  expect(listed.body.conversations).toEqual([
    {
      id: made.id,
      title: 'Orders',
      connection: 'stock',
      created_at: made.created_at,
      updated_at: put.body.updated_at,
      preview: 'And now?',
    },
  ])
  const removed = await api(`/api/conversations/${made.id}`, { method: 'DELETE' })
  expect(removed).toMatchObject({ status: 200, body: { success: true } })
  expect(await api(`/api/conversations/${made.id}`)).toMatchObject({ status: 404 })
})

test('a user cannot find the conversations of another user', async () => {
  const { body: made } = await api('/api/conversations', { json: { messages: [userMessage('mine')] } })
  const path = `/api/conversations/${made.id}`
  const [GET, PUT] = [{ as: 'bob' }, { as: 'bob', method: 'PUT', json: { messages: [userMessage('yours')] } }]
  const [PATCH, DELETE] = [
    { as: 'bob', method: 'PATCH', json: { title: 'yours' } },
    { as: 'bob', method: 'DELETE' },
  ]
  for (const options of [GET, PUT, PATCH, DELETE]) {
    expect(await api(path, options)).toMatchObject({ status: 404, body: { error: expect.any(String) } })
  }
  expect((await api('/api/conversations', { as: 'bob' })).body.conversations).toEqual([])
  const none = await api('/api/conversations?all=true', { as: 'bob', method: 'DELETE' })
  expect(none.body).toEqual({ success: true, deleted: 0 })
  expect((await api(path)).body).toEqual(made)
  expect((await api('/api/conversations?all=true', { method: 'DELETE' })).body).toEqual({ success: true, deleted: 1 })
})

test('API tokens have no conversations', async () => {
  expect(await api('/api/conversations', { as: 'machine' })).toMatchObject({ status: 401 })
  expect(await api('/api/conversations', { as: 'machine', json: { messages: [userMessage('x')] } })).toMatchObject({
    status: 401,
  })
})

test('a list accepts limit and offset, starts with the newest entry and has at most a hundred entries', async () => {
  for (let made = 0; made < 103; made++)
    await conversations.create('bob', { ...empty, messages: [userMessage(`number ${made}`)] })
  const titles = async (query: string) =>
    (await api(`/api/conversations${query}`, { as: 'bob' })).body.conversations.map(
      ({ title }: { title: string }) => title,
    )
  expect((await titles('')).length).toBe(50)
  expect((await titles('?limit=5000')).length).toBe(100)
  expect(await titles('?limit=2&offset=1')).toEqual(['number 101', 'number 100'])
  expect(await titles('?offset=102')).toEqual(['number 0'])
  expect(await titles('?offset=1000')).toEqual([])
  for (const query of ['?limit=0', '?limit=-1', '?limit=x', '?offset=-1', '?offset=1.5', '?limit=1e9'])
    expect(await api(`/api/conversations${query}`, { as: 'bob' })).toMatchObject({ status: 400 })
})
const empty = { provider: '', model: '', connection: '' }

test.each<[string, ApiOptions, string]>([
  ['POST', { json: {} }, 'messages'],
  ['POST', { json: { messages: [] } }, 'messages'],
  ['POST', { json: { messages: [{ role: 'user' }] } }, 'messages.0.content'],
  ['POST', { json: { messages: [{ role: '', content: '' }] } }, 'messages.0.role'],
  ['POST', { json: { messages: [userMessage('x', { timestamp: 'now' })] } }, 'messages.0.timestamp'],
  ['POST', { json: { provider: 1, messages: [userMessage('x')] } }, 'provider'],
  ['PUT', { json: { provider: 'x' } }, 'messages'],
  ['PATCH', { json: {} }, 'title'],
  ['PATCH', { json: { title: ' ' } }, 'title'],
  ['PATCH', { json: { title: 'x'.repeat(501) } }, 'title'],
  ['DELETE', {}, 'all'],
])('the error of %s for a conversation with %j names the problem', async (method, options, field) => {
  const path = method === 'POST' || method === 'DELETE' ? '/api/conversations' : '/api/conversations/x'
  const answer = await api(path, { ...options, method })
  expect(answer.status).toBe(400)
  expect(answer.body.error).toMatch(new RegExp(`^${field}: `))
})
