/** Sends every field of every input with every fault that its schema rejects, and bodies that are not JSON objects. */
import { type IncomingMessage, METHODS, request } from 'node:http'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, createStable, expectError, startClient } from './testing/client.ts'
import { type Description, descriptionOf } from './testing/contract.ts'
import { mutationsOf, withValue } from './testing/mutations.ts'
import { renderPath } from './validation.ts'

let client: Client
let description: Description
let id: string
beforeAll(async () => {
  client = await startClient()
  description = await descriptionOf(client.app)
  id = await createStable(client, 'target')
})
afterAll(() => client.close())

const llm = { provider: 'openai', model: 'm', api_key: 'k' }
/** Every field of every service type. */
const services = [
  {
    service_type: 'mcp',
    host_ids: ['h'],
    target_nodes: ['n'],
    ip_allowlist: { rules: [{ cidr: '10.0.0.0/8', label: 'l' }], state: 5 },
    mcp_config: {
      allow_writes: true,
      embedding_provider: 'voyage',
      embedding_model: 'm',
      embedding_api_key: 'k',
      init_tokens: 't',
      init_users: 'ada:password',
    },
    port: 'ignored',
    public_domain: 1,
    uri: [],
    state: {},
  },
  {
    service_type: 'rest',
    rest_config: {
      db_schemas: 'public',
      db_anon_role: 'anon',
      db_pool: 10,
      max_rows: 1000,
      jwt_secret: 's'.repeat(32),
      jwt_audience: 'a',
      jwt_role_claim_key: '.role',
      cors_origins: '*',
    },
  },
  {
    service_type: 'rag',
    rag_config: {
      embedding_llm: llm,
      completion_llm: { ...llm, provider: 'anthropic' },
      pipelines: [
        {
          name: 'docs',
          tables: [{ table: 't', text_column: 'a', vector_column: 'b', id_column: 'c', filter: 'true' }],
          description: 'd',
          embedding_llm: llm,
          completion_llm: llm,
          hybrid_enabled: false,
          min_similarity: 0.5,
          system_prompt: 'p',
          token_budget: 10,
          top_n: 3,
          vector_weight: 1,
        },
      ],
      cors: { enabled: true, allowed_origins: ['*'] },
      token_budget: 100,
      top_n: 5,
    },
  },
]
const allowlist = { rules: [{ cidr: '10.0.0.0/8', label: 'l' }] }
const create = {
  name: 'whole',
  region: 'local',
  size: 'small',
  display_name: 'd',
  ip_allowlist: allowlist,
  options: ['o'],
  pg_version: '17',
  storage: { autogrow: { at_percent: 70, step_percent: 30, max_size: '100Gi' } },
  services,
}
const update = {
  deletion_protection: false,
  display_name: 'd',
  ip_allowlist: allowlist,
  options: ['o'],
  storage: create.storage,
  services,
}

const inputs = [
  {
    name: 'CreateManagedDatabaseInput',
    body: create,
    method: 'POST',
    path: () => '/databases',
    good: /^services\[0\]\.host_ids: unknown h; /,
  },
  {
    name: 'UpdateManagedDatabaseInput',
    body: update,
    method: 'PATCH',
    path: () => `/databases/${id}`,
    good: /^services\[0\]\.host_ids: unknown h; /,
  },
  {
    name: 'CreateBackupRequest',
    body: { kind: 'hot' },
    method: 'POST',
    path: () => `/databases/${id}/backup`,
    good: /^kind: region local names no snapshot class/,
  },
] as const

describe.each(inputs)('$name', ({ name, body, method, path, good }) => {
  const schema = { $ref: `#/components/schemas/${name}` }

  test('is valid, and is refused only because objects are missing in the cluster', async () => {
    expectError(await client.call(method, path(), { body }), 400, good)
  })

  test('is refused with field and rule for each fault', async () => {
    const mutations = mutationsOf(description, schema, body)
    expect(mutations.length).toBeGreaterThan(name === 'CreateBackupRequest' ? 5 : 300)
    for (const { path: at, rule, value } of mutations) {
      const answer = await client.call(method, path(), { body: withValue(body, at, value) })
      const what = `${rule} at ${renderPath(at)} = ${JSON.stringify(value)?.slice(0, 60)}: ${JSON.stringify(answer.body)}`
      expect(answer.status, what).toBe(400)
      expectError(answer, 400)
      expect(answer.body.message, what).toContain(`${renderPath(at) || 'body'}: `)
      expect(answer.body.message, what).not.toMatch(good)
    }
  })
})

test('refuses a value of the wrong type that looks like a valid value, and names the type', async () => {
  const post = (body: object) => client.call('POST', '/databases', { body: { ...create, services: [], ...body } })
  expectError(await post({ pg_version: 17 }), 400, 'pg_version: must be a string, one of 16, 17, 18')
  expectError(await post({ pg_version: '15' }), 400, 'pg_version: must be one of 16, 17, 18')
})

describe('rules across fields', () => {
  const service = (config: object) => client.create('spanned', { services: [config] })
  test.each([
    [{ service_type: 'rest' }, 'services[0].rest_config: is required for a service of type rest'],
    [{ service_type: 'rag' }, 'services[0].rag_config: is required for a service of type rag'],
    [
      { service_type: 'mcp', rest_config: services[1]?.rest_config },
      'services[0].rest_config: allowed only on a service of type rest',
    ],
    [
      { service_type: 'mcp', mcp_config: { embedding_provider: 'openai' } },
      'services[0].mcp_config.embedding_model: is required if embedding_provider is set',
    ],
    [
      { service_type: 'mcp', mcp_config: { embedding_provider: 'openai', embedding_model: 'm' } },
      'services[0].mcp_config.embedding_api_key: is required if',
    ],
    [{ service_type: 'mcp', service_id: '0123abcd' }, 'services[0].service_id: is assigned by the server'],
  ])('%j', async (config, message) => {
    expect((await service(config)).body).toMatchObject({ code: 400, message: expect.stringContaining(message) })
  })

  test('a database has at most one service of each type', async () => {
    const two = await client.create('spanned', { services: [services[0], services[0]] })
    expectError(two, 400, /^services\[1\]\.service_type: duplicate service type/)
  })
})

describe('allowlist text', () => {
  test.each([
    '::1',
    '2001:db8::/32',
    '::ffff:10.0.0.1',
    '10.0.0',
    '10.0.0.256',
    '010.0.0.1',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/08',
    '10.0.0.0/',
    ' 10.0.0.1',
    '10.0.0.1\n',
    '10.0.0.0/8/8',
    '',
    'localhost',
    '10.0.0.1-10.0.0.2',
    '0x0a.0.0.1',
  ])('%j is refused', async cidr => {
    const body = { ip_allowlist: { rules: [{ cidr: '10.0.0.1' }, { cidr }] } }
    expectError(
      await client.call('PATCH', `/databases/${id}`, { body }),
      400,
      /^ip_allowlist\.rules\[1\]\.cidr: must be/,
    )
  })

  test('accepts 50 rules, a label of 64 and a display_name of 25 characters, but not one more', async () => {
    const rules = (count: number, label: string) => ({
      rules: Array.from({ length: count }, (_, n) => ({ cidr: `10.0.0.${n}`, label })),
    })
    const body = {
      ip_allowlist: rules(50, 'l'.repeat(64)),
      display_name: 'd'.repeat(25),
      options: Array(32).fill('o'.repeat(64)),
    }
    expect((await client.create('edges', body)).status).toBe(200)
    expectError(
      await client.create('e', { ip_allowlist: rules(51, 'l') }),
      400,
      /^ip_allowlist\.rules: must have at most 50 items$/,
    )
    expectError(
      await client.create('e', { ip_allowlist: rules(1, 'l'.repeat(65)) }),
      400,
      /rules\[0\]\.label: must be at most 64 characters long$/,
    )
    expectError(
      await client.create('e', { display_name: 'd'.repeat(26) }),
      400,
      /^display_name: must be at most 25 characters long$/,
    )
  })

  test('counts characters as graphemes, and refuses half a surrogate pair', async () => {
    const elephants = { display_name: '🐘'.repeat(25), options: ['🐘'.repeat(64)] }
    expect(await client.create('herd', elephants)).toMatchObject({ status: 200, body: elephants })
    expectError(
      await client.create('h', { display_name: '🐘'.repeat(26) }),
      400,
      /^display_name: must be at most 25 characters long$/,
    )
    expectError(
      await client.create('h', { display_name: '\ud83d' }),
      400,
      /^display_name: must be well-formed Unicode$/,
    )
    expectError(await client.create('h', { options: [''] }), 400, /^options\[0\]: must be at least 1 character/)
  })
})

test('display text contains no characters that render as something else', async () => {
  const refused = ['a\u0000', 'a\tb', 'a\nb', '\u007f', '\u0085', '\u202eevil', '\u2066x\u2069', '\u2028']
  const message = 'must not contain control characters or bidirectional overrides'
  for (const text of refused) {
    expectError(await client.create('t', { display_name: text }), 400, `display_name: ${message}`)
    const ip_allowlist = { rules: [{ cidr: '10.0.0.1', label: text }] }
    expectError(
      await client.call('PATCH', `/databases/${id}`, { body: { ip_allowlist } }),
      400,
      `ip_allowlist.rules[0].label: ${message}`,
    )
    const branch = await client.call('POST', `/databases/${id}/branches`, { body: { display_name: text } })
    expectError(branch, 400, `display_name: ${message}`)
  }
  const taken = { display_name: 'חנות – قائمة 🐘' }
  expect(await client.call('PATCH', `/databases/${id}`, { body: taken })).toMatchObject({ status: 200, body: taken })
})

describe('query and path', () => {
  test('every parameter of every operation, out of range, of the wrong type, twice, unknown', async () => {
    let tried = 0
    for (const [path, operations] of Object.entries(description.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        if (method !== 'get' && method !== 'delete') continue
        const at = path.replaceAll('{incarnation}', '1').replaceAll(/\{[^}]+\}/g, id)
        const send = async (query: string, name: string) => {
          tried++
          const answer = await client.call(method.toUpperCase() as 'GET', `.${at}?${query}`)
          expectError(answer, 400)
          expect(answer.body.message, `${at}?${query}`).toContain(`${name}: `)
        }
        await send('no_such_parameter=1', 'no_such_parameter')
        for (const { name, in: where, schema } of operation.parameters ?? []) {
          if (where !== 'query') continue
          const { type, minimum, maximum, enum: values, format, minLength } = schema
          const isFreeText =
            type === 'string' && [values, format, minLength, schema.pattern].every(it => it === undefined)
          const bad = isFreeText ? [] : ['']
          if (type === 'integer') bad.push('x', '1e1', '0x1', '1.5', '+1', ' 1', String(Number(minimum) - 1))
          if (maximum !== undefined) bad.push(String(Number(maximum) + 1), '9'.repeat(30))
          if (type === 'boolean') bad.push('yes', '1', 'TRUE')
          if (values !== undefined || 'const' in schema) bad.push('nonsense')
          if (format === 'date-time')
            bad.push('yesterday', '2026-01-01', '2026-13-01T00:00:00Z', '2026-01-01T00:00:00', '1')
          if (format === 'uuid') bad.push('x', `${id}0`, id.replaceAll('-', ''))
          for (const value of bad) await send(`${name}=${encodeURIComponent(value)}`, name)
          await send(`${name}=1&${name}=2`, name)
        }
      }
    }
    expect(tried).toBeGreaterThan(100)
  })

  test('the error names a parameter as the client sent it', async () => {
    const message = async (query: string) => (await client.call('GET', `/databases?${query}`)).body.message
    expect(await message('limit=1&limit=2')).toBe('limit: must occur only once')
    for (const limit of ['1.5', '1e2', 'ten', ''])
      expect(await message(`limit=${limit}`)).toBe('limit: must be a whole number, in digits')
    expect(await message(`offset=${'9'.repeat(20)}`)).toBe('offset: must be at most 1000000000')
    expect(await message(`offset=-${'9'.repeat(400)}`)).toBe('offset: must be at least 0')
    expect(await message('limit[]=5')).toBe('limit[]: unknown field')
    expect(await message('limit[a][]=5&constructor=1')).toBe('limit[a][]: unknown field; constructor: unknown field')
    expect(await message('=5')).toBe('[""]: unknown field')
    expect(await message('%E2%80%AEx=5')).toBe('["\u202ex"]: unknown field')
  })

  test('reduces a limit above the maximum, and returns the applied limit', async () => {
    for (const [query, applied] of [
      ['limit=1001', '1000'],
      [`limit=${'9'.repeat(20)}`, '1000'],
      ['limit=3', '3'],
      ['', '100'],
    ]) {
      const answer = await client.call('GET', `/databases?${query}`)
      expect({ status: answer.status, applied: answer.headers['x-applied-limit'] }).toEqual({ status: 200, applied })
    }
    expect((await client.call('GET', '/backups?limit=1000')).headers['x-applied-limit']).toBe('100')
    expectError(await client.call('GET', '/databases?limit=0'), 400, /^limit: must be at least 1$/)
  })

  test('a task filter without matches returns an empty list', async () => {
    for (const query of [
      'subject_id=x',
      'subject_kind=planet',
      'id=1',
      'name=none',
      'database_id=x',
      'status=',
      `subject_id=${id}0`,
    ])
      expect(await client.call('GET', `/tasks?${query}`)).toMatchObject({ status: 200, body: [] })
    const found = await client.call('GET', `/tasks?subject_id=${id.toUpperCase()}&status=queued`)
    expect(found.body).toHaveLength(1)
    expectError(await client.call('GET', '/tasks?status=queued&status=running'), 400, /^status: must occur only once$/)
  })

  test('include can be a list', async () => {
    for (const query of ['include=pricing', 'include=pricing&include=pricing', 'include=pricing,pricing']) {
      const { status, body } = await client.call('GET', `/sizes?${query}`)
      expect({ status, priced: body.some((size: object) => 'pricing' in size) }).toEqual({ status: 200, priced: true })
    }
    expectError(await client.call('GET', '/sizes?include=pricing,planets'), 400, /^include: must be pricing$/)
  })

  test('malformed ids, in every id position', async () => {
    const bad = ['x', '0', `${id}0`, id.slice(1), id.replaceAll('-', ''), `{${id}}`, '%00', '..%2f..', 'g'.repeat(36)]
    for (const [path, operations] of Object.entries(description.paths)) {
      for (const method of path.includes('{') ? Object.keys(operations) : []) {
        for (const malformed of bad) {
          const at = path.replaceAll(/\{[^}]+\}/g, malformed)
          const body = operations[method]?.requestBody === undefined ? undefined : {}
          expectError(await client.call(method.toUpperCase() as 'GET', `.${at}`, { body }), 400, /id: must be a UUID/)
        }
      }
    }
  })

  test('refuses an oversized path or parameter with the usual error body', async () => {
    expect((await client.call('GET', `/databases/${'a'.repeat(5000)}`)).status).toBe(400)
    expect((await client.call('GET', '/databases/%zz')).status).toBe(400)
    expectError(await client.call('GET', `/databases?region=${'a'.repeat(64)}`), 400, /^region: must be at most 63/)
  })
})

describe('bodies', () => {
  const post = (body: string | undefined, type?: string) =>
    client.call('POST', '/databases', { body, ...(type === undefined ? {} : { headers: { 'content-type': type } }) })

  test('that are not a JSON object', async () => {
    for (const body of ['{', '{"name":}', '', ' ', 'null', '[]', '"x"', '1', '{"a":1}{', '[1,2']) {
      expectError(await post(body, 'application/json'), 400, /^body: /)
    }
    expectError(await post(undefined), 400, /^body: is required$/)
    for (const body of ['{"__proto__":{"x":1},"name":"p"}', '{"constructor":{"prototype":{"x":1}}}'])
      expectError(
        await post(body, 'application/json'),
        400,
        /^body: unknown field __proto__ or constructor\.prototype$/,
      )
    expectError(await post(`${'['.repeat(400_000)}`, 'application/json'), 400)
    expectError(await post(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`, 'application/json'), 400)
  })

  test('that are not UTF-8', async () => {
    const { app } = client
    const { token } = await import('./testing/harness.ts')
    const headers = { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' }
    const payload = Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')])
    const answer = await app.inject({ method: 'POST', url: '/managed/v1/databases', headers, payload })
    expect(answer.json()).toEqual({ code: 400, message: 'body: must be UTF-8' })
  })

  test('of another type', async () => {
    for (const type of [
      'text/plain',
      'application/xml',
      'application/x-www-form-urlencoded',
      'multipart/form-data',
      'nonsense',
      'application/jsonp',
    ]) {
      expectError(await post('{}', type), 415, /Content-Type must be application\/json/)
    }
    expectError(await post('{}', 'application/json; charset=utf-8'), 400, /^name: is required/)
  })

  test('of another charset', async () => {
    for (const charset of ['iso-8859-1', 'UTF-16', '"utf-16le"', '', 'utf-8; charset=latin1', 'latin1;charset=utf-8'])
      expectError(await post('{}', `application/json; charset=${charset}`), 415, /^Content-Type: the charset of JSON/)
    for (const charset of ['UTF-8', '"utf-8"', 'utf8;x=y'])
      expectError(await post('{}', `application/json;charset=${charset}`), 400, /^name: is required/)
  })

  test('with a content encoding', async () => {
    for (const coding of ['gzip', 'br', 'identity, gzip'])
      expectError(
        await client.call('POST', '/databases', { body: {}, headers: { 'content-encoding': coding } }),
        415,
        /^Content-Encoding: /,
      )
    const plain = { body: {}, headers: { 'content-encoding': 'Identity' } }
    expectError(await client.call('POST', '/databases', plain), 400, /^name: is required/)
  })

  test('with a key twice', async () => {
    const send = async (body: string) => (await post(body, 'application/json')).body.message
    expect(await send('{"name":"a","region":"local","size":"small","name":"b"}')).toBe(
      'name: duplicate field in one object',
    )
    expect(await send('{"ip_allowlist":{"rules":[{},{"cidr":"1.1.1.1","\\u0063idr":"0.0.0.0/0"}]}}')).toBe(
      'ip_allowlist.rules[1].cidr: duplicate field in one object',
    )
  })

  test('too large', async () => {
    expectError(await post(JSON.stringify({ name: 'a'.repeat(10 * 1024 * 1024) })), 413, /at most 1 MiB/)
    expectError(await post(JSON.stringify({ name: 'a'.repeat(1024 * 1024 - 100) })), 400, /^name: /)
  })
})

describe('paths and methods', () => {
  test('unknown paths cause a 404; known paths with another method cause a 405 with Allow', async () => {
    for (const path of [
      './managed',
      './managed/v1',
      './managed/v2/databases',
      '/nope',
      `/databases/${id}/nope`,
      './metrics',
    ]) {
      expectError(await client.call('GET', path, { token: null }), 404, /^unknown path: \//)
    }
    for (const [path, operations] of Object.entries(description.paths)) {
      for (const method of ['PUT', 'POST', 'PATCH', 'DELETE', 'OPTIONS'] as const) {
        if (Object.keys(operations).includes(method.toLowerCase())) continue
        const answer = await client.call(method, `.${path.replaceAll(/\{[^}]+\}/g, id)}`, {
          token: null,
          body: 'x'.repeat(2_000_000),
        })
        expectError(answer, 405)
        for (const known of Object.keys(operations)) expect(answer.headers.allow).toContain(known.toUpperCase())
      }
    }
  })
})

describe('a path', () => {
  let port: string
  beforeAll(async () => {
    port = new URL(await client.app.listen({ host: '127.0.0.1', port: 0 })).port
  })
  const send = async (method: string, path: string) => {
    const { resolve, reject, promise } = Promise.withResolvers<IncomingMessage>()
    request({ host: '127.0.0.1', port, method, path }, resolve).on('error', reject).end()
    const response = await promise
    const body = JSON.parse((await text(response)) || '{}')
    return {
      status: response.statusCode,
      allow: response.headers.allow,
      code: body.code,
      message: body.message,
      id: response.headers['x-request-id'],
    }
  }

  test('that does not exist is named as the client sent it', async () => {
    const call = (path: string, method: 'GET' | 'POST' | 'DELETE' = 'GET') => client.call(method, path, { token: null })
    expectError(await call('/databases/'), 404, ': /managed/v1/databases/: remove the trailing slash')
    expectError(await call('/databases/', 'POST'), 404, ': /managed/v1/databases/: remove the trailing slash')
    expectError(await call('/databases/', 'DELETE'), 404, ': /managed/v1/databases/: remove the trailing slash')
    expectError(await call(`/databases/${id}/?x=1`), 404, /remove the trailing slash$/)
    expectError(await call('/databases//branches'), 404, /: \/managed\/v1\/databases\/\/branches$/)
    expectError(await call(`/nope/${'x'.repeat(80)}?secret=1`), 404, /x{80}$/)
    expectError(await call(`/databases/%zz`), 400, 'the path is not a valid URL path')
  })

  test('is the same path in every encoding, and matches no other path', async () => {
    const unauthorized = { status: 401 }
    for (const at of ['', 'http://x', 'HTTPS://x:8080']) {
      expect(await send('GET', `${at}/managed/v1/databases/${id}`), at).toMatchObject(unauthorized)
      expect(await send('GET', `${at}/managed/v1/data%62ases/${id}?x=1`), at).toMatchObject(unauthorized)
      for (const path of [`${at}/managed/v1/databases/${id}`, `${at}/managed/v1/data%62ases/${id}`])
        for (const method of ['PUT', 'FOO'])
          expect(await send(method, path), path).toMatchObject({ status: 405, allow: 'GET, HEAD, PATCH, DELETE' })
      expect(await send('GET', `${at}/nope`)).toMatchObject({
        status: 404,
        message: 'unknown path: /nope',
      })
    }
    expect(await send('GET', 'http://x?limit=1')).toMatchObject({ status: 302 })
    for (const method of ['GET', 'PUT'])
      expect(await send(method, '/managed/v1/databases;x=1')).toMatchObject({
        status: 404,
        message: 'unknown path: /managed/v1/databases;x=1',
      })
  })

  test('at the root redirects to the documentation', async () => {
    expect(await client.call('GET', './', { token: null })).toMatchObject({
      status: 302,
      headers: { location: '/docs' },
    })
    expect((await client.call('GET', './docs', { token: null })).status).toBeLessThan(400)
  })

  test('accepts no other method, whatever its name', async () => {
    const methods = METHODS.filter(method => !['GET', 'HEAD', 'PATCH', 'DELETE', 'CONNECT', 'QUERY'].includes(method))
    for (const method of [...methods, 'QUERY'])
      expect(await send(method, `/managed/v1/databases/${id}`), method).toEqual({
        status: 405,
        allow: 'GET, HEAD, PATCH, DELETE',
        code: 405,
        message: 'the path accepts only GET, HEAD, PATCH, DELETE',
        id: expect.any(String),
      })
    for (const path of ['/', '/docs/static/index.html', '/healthz', '/managed/v1/openapi.json', '/managed/v1/ca.pem'])
      expect(await send('PROPFIND', path), path).toMatchObject({ status: 405, allow: 'GET, HEAD' })
    expect(await send('PROPFIND', '/managed/v1/nothing')).toMatchObject({ status: 404 })
  })

  test('of a missing file is 404, also below a path that accepts the method', async () => {
    for (const path of ['/docs/static/nothing.js', '/docs/static/..%2f..%2fpackage.json'])
      expect(await send('GET', path)).toMatchObject({
        status: 404,
        allow: undefined,
        message: `unknown path: ${path}`,
      })
    expect(await send('PUT', '/docs/static/nothing.js')).toMatchObject({ status: 405 })
  })
})

describe('arbitrary input', () => {
  const json = fc.jsonValue({ maxDepth: 4 })
  const someKeys = fc.constantFrom(
    'name',
    'region',
    'size',
    'ip_allowlist',
    'rules',
    'services',
    'options',
    'display_name',
    'kind',
    'cidr',
  )
  const likely = fc.dictionary(someKeys, fc.oneof(json, fc.dictionary(someKeys, json)))

  test('no body is an internal error', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(json, likely), fc.constantFrom(...inputs), async (body, { method, path }) => {
        const answer = await client.call(method, path(), { body: JSON.stringify(body) })
        expect(answer.status).toBeLessThan(500)
        if (answer.status >= 400) expectError(answer, answer.status)
      }),
      { numRuns: 400 },
    )
  })

  test('no header or query is an internal error', async () => {
    const header = fc.constantFrom(
      'prefer',
      'idempotency-key',
      'x-request-id',
      'authorization',
      'x-forwarded-for',
      'content-type',
    )
    const visible = fc.string({ unit: 'binary-ascii', maxLength: 60 }).filter(text => /^[\x20-\x7e]*$/.test(text))
    await fc.assert(
      fc.asyncProperty(header, visible, fc.webQueryParameters(), async (name, value, query) => {
        const quick = name === 'prefer' ? value.replaceAll(/wait/gi, 'w') : value
        for (const path of ['/databases', '/client-ip', `/databases/${id}`]) {
          const answer = await client.call('GET', `${path}?${query}`, { headers: { [name]: quick } })
          expect(answer.status).toBeLessThan(500)
          expect(answer.headers['x-request-id']).toMatch(/^[\w.:+/=-]{1,128}$/)
        }
      }),
      { numRuns: 200 },
    )
  })
})
