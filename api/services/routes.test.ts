/** Services of databases and branches, through the API: stored, returned, kept and refused fields. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { childNames, labels, tenantNamespace } from '../../crds/index.ts'
import { openServiceKeys, sealedData, serviceKeysComponent } from '../../sealing/service-keys.ts'
import { type Client, createStable, expectError, setSnapshotClass, startClient } from '../testing/client.ts'
import { configurationOf, giveCredentials, reconcile, sealingKey } from '../testing/harness.ts'

const namespace = tenantNamespace('acme')
const llm = (key: string) => ({ provider: 'openai', model: 'm', api_key: key })
const table = { table: 'docs', text_column: 'content', vector_column: 'embedding' }
const tokenOf = (serviceId: string) => `minted-for-${serviceId}`

const given = {
  embedding: 'sk-embedding-5f1c',
  tokens: 'bearer-9e02,bearer-77aa',
  users: 'ada:lovelace-31d7',
  jwt: 'jwt-secret-8b44-jwt-secret-8b44-jwt',
  ragEmbedding: 'sk-rag-embedding-c0de',
  ragCompletion: 'sk-rag-completion-beef',
  pipeline: 'sk-pipeline-f00d',
}
const mcp = {
  service_type: 'mcp',
  mcp_config: {
    embedding_provider: 'openai',
    embedding_model: 'text-embedding-3-small',
    embedding_api_key: given.embedding,
    init_tokens: given.tokens,
    init_users: given.users,
  },
}
const rest = {
  service_type: 'rest',
  rest_config: { db_schemas: 'public, api', db_anon_role: 'web_anon', jwt_secret: given.jwt },
}
const rag = {
  service_type: 'rag',
  rag_config: {
    embedding_llm: llm(given.ragEmbedding),
    completion_llm: llm(given.ragCompletion),
    pipelines: [{ name: 'docs', tables: [table], embedding_llm: llm(given.pipeline) }],
  },
}

let client: Client
const lines: string[] = []
beforeAll(async () => {
  client = await startClient({ log: line => lines.push(line) })
})
afterAll(() => client.close())

const stored = async (name: string) => (await client.cluster.get('ManagedDatabase', { namespace, name }))?.spec.services
const patch = (id: string, services: unknown, headers = {}) =>
  client.call('PATCH', `/databases/${id}`, { body: { services }, headers })
const read = async (id: string) => client.call('GET', `/databases/${id}`)
const secretsOf = async (id: string) =>
  (await client.cluster.list('Secret', { namespace })).items.filter(
    ({ metadata }) =>
      metadata.labels?.[labels.database] === id && metadata.labels?.[labels.component] === serviceKeysComponent,
  )

/** Does what the operator does for services: mints their tokens, and says that they run. */
async function serve(name: string, id: string): Promise<void> {
  const services = (await stored(name)) ?? []
  await mint(id, services)
  const statuses = services.map(({ serviceType, serviceId }) => ({
    ...{ serviceType, serviceId, state: 'running' as const, port: 8080 },
    uri: `https://${name}.espalier.test/${serviceType}`,
  }))
  await reconcile(client.cluster, 'acme', name, { services: statuses })
}

async function mint(ownerId: string, services: readonly { serviceId: string }[]): Promise<void> {
  for (const { serviceId } of services) {
    const name = childNames.serviceSecret(ownerId, serviceId)
    if ((await client.cluster.get('Secret', { namespace, name })) !== undefined) continue
    await client.cluster.create('Secret', {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name } },
      data: sealedData(sealingKey, { namespace, name }, { token: tokenOf(serviceId), password: 'p' }),
    })
  }
}

describe('create', () => {
  test('gives ids, closes what has no allowlist, and keeps the keys sealed in Secrets of their own', async () => {
    const open = { ...rest, ip_allowlist: { rules: [{ cidr: '10.1.2.3/8' }] } }
    const answer = await client.create('three', { services: [mcp, open, rag] })
    expect(answer.status).toBe(200)
    const shown = answer.body.services
    expect(shown).toMatchObject([
      { service_type: 'mcp', state: 'pending', port: 8080, ip_allowlist: { rules: [], state: 'closed' } },
      { service_type: 'rest', state: 'pending', port: 3000, ip_allowlist: { rules: [{ cidr: '10.0.0.0/8' }] } },
      { service_type: 'rag', state: 'pending', port: 8081, rag_config: { top_n: 10, token_budget: 1000 } },
    ])
    for (const { service_id: id } of shown) expect(id).toMatch(/^[0-9a-f]{8}$/)
    expect(new Set(shown.map((one: { service_id: string }) => one.service_id)).size).toBe(3)
    const secrets = await secretsOf(answer.body.id)
    expect(secrets.map(({ immutable }) => immutable)).toEqual([true, true, true])
    const keys = await Promise.all(secrets.map(secret => openServiceKeys(sealingKey, secret)))
    expect(Object.assign({}, ...keys)).toEqual({
      embedding_api_key: given.embedding,
      init_tokens: given.tokens,
      init_users: given.users,
      jwt_secret: given.jwt,
      embedding_llm_api_key: given.ragEmbedding,
      completion_llm_api_key: given.ragCompletion,
      'pipelines.docs.embedding_llm_api_key': given.pipeline,
    })
    expect((await stored('three'))?.map(({ secret }) => secret?.name).toSorted()).toEqual(
      secrets.map(({ metadata }) => metadata.name).toSorted(),
    )
  })

  test('of a service without keys makes no Secret', async () => {
    const { body } = await client.create('keyless', { services: [{ service_type: 'mcp' }] })
    expect(body.services).toMatchObject([{ mcp_config: { allow_writes: false } }])
    expect(await secretsOf(body.id)).toEqual([])
  })
})

describe('read', () => {
  test('shows what kubectl has applied, whatever rule of the API it breaks', async () => {
    const { body } = await client.create('byhand', { services: [rag] })
    await reconcile(client.cluster, 'acme', 'byhand')
    const found = await client.cluster.get('ManagedDatabase', { namespace, name: 'byhand' })
    const [service] = found?.spec.services ?? []
    if (found === undefined || service?.rag === undefined) throw new Error('no rag service')
    const [pipeline] = service.rag.pipelines
    const tables = pipeline?.tables.map(one => ({ ...one, table: 'app.public.docs', filter: 'true) OR (true' })) ?? []
    const broken = {
      ...service,
      rag: {
        ...service.rag,
        ...{ cors: { enabled: true, allowedOrigins: ['nowhere'] } },
        pipelines: service.rag.pipelines.map(one => ({ ...one, tables })),
      },
    }
    await client.cluster.replace('ManagedDatabase', { ...found, spec: { ...found.spec, services: [broken] } })
    const answer = await read(body.id)
    expect(answer.status).toBe(200)
    expect(answer.body.services[0].rag_config).toMatchObject({
      ...{ cors: { allowed_origins: ['nowhere'] } },
      pipelines: [{ tables: [{ table: 'app.public.docs', filter: 'true) OR (true' }] }],
    })
  })

  test('of one object shows tokens and keys that can be read, and is not kept by caches', async () => {
    const { body } = await client.create('shown', { services: [mcp, rest, rag] })
    await serve('shown', body.id)
    const answer = await read(body.id)
    expect(answer.headers['cache-control']).toBe('no-store')
    const [first, second, third] = answer.body.services
    expect(first.mcp_config).toMatchObject({
      embedding_api_key: given.embedding,
      init_tokens: given.tokens,
      init_users: given.users,
    })
    expect(first).toMatchObject({ state: 'running', uri: 'https://shown.espalier.test/mcp' })
    expect(first.public_domain).toBe(answer.body.domain)
    expect(third.bearer_token).toBe(tokenOf(third.service_id))
    expect(JSON.stringify([second, third])).not.toMatch(/jwt-secret|sk-/)
    const [listed] = (await client.call('GET', '/databases?limit=1000')).body.filter(
      ({ name }: { name: string }) => name === 'shown',
    )
    expect(JSON.stringify(listed)).not.toMatch(/jwt-secret|sk-|bearer-|lovelace|minted-for/)
  })

  test("of an mcp service without its user's tokens returns the generated one", async () => {
    const { body } = await client.create('minted', { services: [{ service_type: 'mcp' }] })
    expect((await read(body.id)).body.services[0].mcp_config).toEqual({ allow_writes: false })
    await serve('minted', body.id)
    const [service] = (await read(body.id)).body.services
    expect(service.mcp_config).toEqual({ allow_writes: false, init_tokens: tokenOf(service.service_id) })
  })

  test('returns keys that a user keeps in their own Secret', async () => {
    const id = await createStable(client, 'applied')
    const data = { init_tokens: Buffer.from('plain-token').toString('base64') }
    await client.cluster.create('Secret', {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: 'own-keys' }, data },
    })
    const object = await client.cluster.get('ManagedDatabase', { namespace, name: 'applied' })
    if (object === undefined) throw new Error('no database')
    const service = { serviceType: 'mcp' as const, serviceId: '0a1b2c3d', ipAllowlist: { rules: [] } }
    const services = [{ ...service, secret: { name: 'own-keys' } }]
    await client.cluster.replace('ManagedDatabase', { ...object, spec: { ...object.spec, services } })
    await serve('applied', id)
    expect((await read(id)).body.services[0].mcp_config.init_tokens).toBe('plain-token')
    expect((await patch(id, [{ service_type: 'mcp' }])).status).toBe(200)
    expect(await stored('applied')).toMatchObject(services)
  })
})

describe('change', () => {
  test('with only the type of a service changes nothing', async () => {
    const { body } = await client.create('same', {
      services: [{ ...mcp, ip_allowlist: { rules: [{ cidr: '10.0.0.1' }] } }],
    })
    await serve('same', body.id)
    const before = await stored('same')
    const writes = client.cluster.writes
    const answer = await patch(body.id, [{ service_type: 'mcp' }])
    expect(answer).toMatchObject({ status: 200, body: { status: 'available' } })
    expect(client.cluster.writes).toBe(writes)
    expect(await stored('same')).toEqual(before)
  })

  test('with a returned configuration changes nothing', async () => {
    const { body } = await client.create('echoed', { services: [{ service_type: 'mcp' }, rest, rag] })
    await serve('echoed', body.id)
    const before = await stored('echoed')
    const shown = (await read(body.id)).body.services
    expect((await patch(body.id, shown.toReversed())).body.status).toBe('available')
    expect(await stored('echoed')).toEqual(before)
  })

  test('of a key writes a new Secret and keeps the old one for the operator to delete', async () => {
    const { body } = await client.create('rekeyed', { services: [mcp, rest] })
    await serve('rekeyed', body.id)
    const [before, other] = (await stored('rekeyed')) ?? []
    const change = {
      service_type: 'mcp',
      mcp_config: { ...mcp.mcp_config, embedding_api_key: undefined, init_users: null },
    }
    const answer = await patch(body.id, [change, rest])
    expect(answer).toMatchObject({
      status: 200,
      body: { status: 'modifying', services: [{ state: 'pending' }, { state: 'pending' }] },
    })
    const [after, untouched] = (await stored('rekeyed')) ?? []
    expect(after?.serviceId).toBe(before?.serviceId)
    expect(after?.secret?.name).not.toBe(before?.secret?.name)
    expect(untouched).toEqual(other)
    const secret = (await secretsOf(body.id)).find(({ metadata }) => metadata.name === after?.secret?.name)
    expect(openServiceKeys(sealingKey, secret ?? { metadata: { name: '' } })).toEqual({
      embedding_api_key: given.embedding,
      init_tokens: given.tokens,
    })
    expect(await secretsOf(body.id)).toHaveLength(3)
    // Repeated while it is applied, it gets its own response; any other change waits.
    const again = await patch(body.id, [change, rest])
    expect(again.headers['x-task-id']).toBe(answer.headers['x-task-id'])
    expectError(await patch(body.id, []), 409, /modifying/)
  })

  test('removes services missing from the list, and adds new ones', async () => {
    const { body } = await client.create('replaced', { services: [mcp, rest] })
    await serve('replaced', body.id)
    const replaced = (await stored('replaced'))?.[1]
    expect((await patch(body.id, [rag, rest])).body.services).toMatchObject([
      { service_type: 'rest', service_id: replaced?.serviceId },
      { service_type: 'rag' },
    ])
  })

  test('changes nothing if the write of the database fails', async () => {
    const { body } = await client.create('failing', { services: [mcp] })
    await serve('failing', body.id)
    const before = await stored('failing')
    client.cluster.before = async (operation, kind) => {
      if (operation === 'replace' && kind === 'ManagedDatabase') throw new Error('the cluster is away')
    }
    const change = { ...mcp, mcp_config: { ...mcp.mcp_config, init_tokens: 'another' } }
    const answer = await patch(body.id, [change])
    client.cluster.before = undefined
    expect(answer.status).toBe(500)
    expect(await stored('failing')).toEqual(before)
    expect((await patch(body.id, [change])).status).toBe(200)
  })

  test.each<[string, object, RegExp]>([
    [
      'a wrong id',
      { service_type: 'mcp', service_id: '00000000' },
      /^services\[0\]\.service_id: the mcp service has the id /,
    ],
    [
      'an id of nothing',
      { ...rest, service_id: '00000000' },
      /^services\[0\]\.service_id: the database has no rest service/,
    ],
    [
      'an unknown host',
      { service_type: 'mcp', host_ids: ['db-1', 'h9'] },
      /^services\[0\]\.host_ids: unknown h9; the database has db-1, node-a$/,
    ],
    ['an unknown node', { service_type: 'mcp', target_nodes: ['n9'] }, /^services\[0\]\.target_nodes: unknown n9; /],
    [
      'no key',
      { service_type: 'mcp', mcp_config: { embedding_provider: 'openai', embedding_model: 'm' } },
      /^services\[0\]\.mcp_config\.embedding_api_key: is required .* no key is stored$/,
    ],
    [
      'no keys of a new one',
      { ...rag, rag_config: { ...rag.rag_config, completion_llm: { provider: 'openai', model: 'm' } } },
      /^services\[0\]\.rag_config\.completion_llm\.api_key: is required/,
    ],
    [
      'a pipeline of another provider without a key',
      {
        ...rag,
        rag_config: {
          ...rag.rag_config,
          pipelines: [{ name: 'd', tables: [table], completion_llm: { provider: 'anthropic', model: 'm' } }],
        },
      },
      /^services\[0\]\.rag_config\.pipelines\[0\]\.completion_llm\.api_key: is required/,
    ],
    [
      'filters that are too long together',
      {
        ...rag,
        rag_config: {
          ...rag.rag_config,
          pipelines: [
            {
              name: 'd',
              tables: Array.from({ length: 30 }, () => ({ ...table, filter: `a = '${'x'.repeat(3_900)}'` })),
            },
          ],
        },
      },
      /^services\[0\]\.rag_config\.pipelines: filters must have at most 100000 characters in total/,
    ],
    [
      'a filter of two conditions',
      {
        ...rag,
        rag_config: { ...rag.rag_config, pipelines: [{ name: 'd', tables: [{ ...table, filter: 'true) OR (true' }] }] },
      },
      /^services\[0\]\.rag_config\.pipelines\[0\]\.tables\[0\]\.filter: is not one SQL condition/,
    ],
    [
      'a table of another database',
      {
        ...rag,
        rag_config: { ...rag.rag_config, pipelines: [{ name: 'd', tables: [{ ...table, table: 'app.public.docs' }] }] },
      },
      /^services\[0\]\.rag_config\.pipelines\[0\]\.tables\[0\]\.table: must be the name of a table, as table or schema\.table/,
    ],
    [
      'two pipelines of one name',
      {
        ...rag,
        rag_config: { ...rag.rag_config, pipelines: [1, 2].map(() => ({ name: 'd', tables: [table] })) },
      },
      /^services\[0\]\.rag_config\.pipelines\[1\]\.name: duplicate pipeline name/,
    ],
    [
      'embeddings of anthropic',
      { ...rag, rag_config: { ...rag.rag_config, embedding_llm: { ...llm('k'), provider: 'anthropic' } } },
      /^services\[0\]\.rag_config\.embedding_llm\.provider: anthropic has no embeddings/,
    ],
    [
      'a token with a space',
      { service_type: 'mcp', mcp_config: { init_tokens: 'a, b' } },
      /^services\[0\]\.mcp_config\.init_tokens: must be tokens/,
    ],
    [
      'a user twice',
      { service_type: 'mcp', mcp_config: { init_users: 'a:password,a:passwords' } },
      /^services\[0\]\.mcp_config\.init_users: must not contain a username twice/,
    ],
    [
      'a user without a password',
      { service_type: 'mcp', mcp_config: { init_users: 'a:short' } },
      /^services\[0\]\.mcp_config\.init_users: must have passwords of 8 to 1024 bytes/,
    ],
    [
      'an empty schema',
      { ...rest, rest_config: { ...rest.rest_config, db_schemas: 'a,,b' } },
      /^services\[0\]\.rest_config\.db_schemas: must be names/,
    ],
    [
      'a schema of Postgres',
      { ...rest, rest_config: { ...rest.rest_config, db_schemas: 'pg_catalog' } },
      /^services\[0\]\.rest_config\.db_schemas: must not name pg_catalog/,
    ],
    [
      'a role of ours',
      { ...rest, rest_config: { ...rest.rest_config, db_anon_role: 'admin' } },
      /^services\[0\]\.rest_config\.db_anon_role: must be a role of your own/,
    ],
    [
      'a role that Postgres cannot have',
      { ...rest, rest_config: { ...rest.rest_config, db_anon_role: 'a\0b' } },
      /^services\[0\]\.rest_config\.db_anon_role: must be the name of a role/,
    ],
    [
      'a short secret',
      { ...rest, rest_config: { ...rest.rest_config, jwt_secret: 'short' } },
      /^services\[0\]\.rest_config\.jwt_secret: must be at least 32/,
    ],
    [
      'no origin',
      { ...rest, rest_config: { ...rest.rest_config, cors_origins: 'https://a.example/path' } },
      /^services\[0\]\.rest_config\.cors_origins: must be origins/,
    ],
  ])('with %s is refused', async (name, service, message) => {
    const database = `bad${name.replaceAll(/[^a-z]/g, '')}`
    const { body } = await client.create(database, { services: [{ service_type: 'mcp' }] })
    const instances = [{ id: 'db-1', role: 'primary' as const, node: 'node-a' }]
    await reconcile(client.cluster, 'acme', database, { instances })
    const before = await stored(database)
    expectError(await patch(body.id, [service]), 400, message)
    expect(await stored(database)).toEqual(before)
    expect(await secretsOf(body.id)).toEqual([])
  })
})

test('an installation without services refuses new ones, but allows removal', async () => {
  const without = await startClient({ beside: client, configuration: configurationOf({ services: false }) })
  const { body } = await client.create('lasting', { services: [mcp] })
  await serve('lasting', body.id)
  expectError(
    await without.create('none', { services: [mcp] }),
    400,
    /^services\[0\]: this installation does not run services/,
  )
  const change = (services: unknown) => without.call('PATCH', `/databases/${body.id}`, { body: { services } })
  expectError(
    await change([{ service_type: 'mcp' }, rest]),
    400,
    /^services\[1\]: this installation does not run services/,
  )
  expect((await change([])).body.services).toEqual([])
  await without.close()
})

test('rag on a major without pgvector is refused, with a list of majors that have it', async () => {
  const configuration = configurationOf({ pgvectorVersions: ['17'] })
  const without = await startClient({ beside: client, configuration })
  const answer = await without.create('vectorless', { pg_version: '18', services: [rag] })
  expectError(
    answer,
    400,
    /^services\[0\]\.service_type: rag needs pgvector, .*versions that have it: 17; "make pgvector" adds it$/,
  )
  await without.close()
})

test("a branch has its own services: new ids and tokens, the providers' keys, and no users", async () => {
  const { body: source } = await client.create('forked', {
    services: [{ ...mcp, ip_allowlist: { rules: [{ cidr: '10.0.0.1' }] } }, rest, rag],
  })
  await serve('forked', source.id)
  await setSnapshotClass(client, { name: 'fast', atomic: true })
  const { status, body: branch } = await client.call('POST', `/databases/${source.id}/branches`, { body: {} })
  expect(status, JSON.stringify(branch)).toBe(201)
  const ids = (services: { service_id: string }[]) => services.map(({ service_id: id }) => id)
  expect(branch.services).toMatchObject([
    { service_type: 'mcp', ip_allowlist: { rules: [{ cidr: '10.0.0.1/32' }] } },
    { service_type: 'rest' },
    { service_type: 'rag' },
  ])
  expect(new Set([...ids(branch.services), ...ids(source.services)]).size).toBe(6)
  await mint(
    branch.id,
    ids(branch.services).map(serviceId => ({ serviceId })),
  )
  await giveCredentials(client.cluster, namespace, branch.id)
  const answer = await client.call('GET', `/databases/${source.id}/branches/${branch.id}`)
  expect(answer.headers['cache-control']).toBe('no-store')
  const [first, , third] = answer.body.services
  expect(first.mcp_config).toEqual({
    ...{ allow_writes: false, embedding_provider: 'openai', embedding_model: 'text-embedding-3-small' },
    embedding_api_key: given.embedding,
    init_tokens: tokenOf(first.service_id),
  })
  expect(third.bearer_token).toBe(tokenOf(third.service_id))
  const keys = (await secretsOf(branch.id)).map(secret => openServiceKeys(sealingKey, secret))
  expect(Object.keys(Object.assign({}, ...keys))).not.toEqual(expect.arrayContaining(['init_tokens']))
  const [listed] = (await client.call('GET', `/databases/${source.id}/branches`)).body
  expect(JSON.stringify(listed)).not.toMatch(/sk-|bearer-|lovelace|minted-for/)
})

test('secrets are in no list, task, audit entry, repeated response or log line', async () => {
  const body = { name: 'hidden', region: 'local', size: 'small', services: [mcp, rest, rag] }
  const headers = { 'idempotency-key': 'hidden-1' }
  const created = await client.call('POST', '/databases', { body, headers })
  const replayed = await client.call('POST', '/databases', { body, headers })
  expect(replayed.body.id).toBe(created.body.id)
  await serve('hidden', created.body.id)
  const change = [{ ...mcp, mcp_config: { ...mcp.mcp_config, init_tokens: 'bearer-changed' } }, rest, rag]
  const changed = await patch(created.body.id, change, { 'idempotency-key': 'hidden-2' })
  const again = await patch(created.body.id, change, { 'idempotency-key': 'hidden-2' })
  await patch(created.body.id, [{ ...mcp, service_id: '00000000' }])
  await patch(created.body.id, [{ ...rest, rest_config: { ...rest.rest_config, jwt_secret: 'x-9e02' } }])
  const everything = JSON.stringify([
    ...[created.body, replayed.body, changed.body, again.body],
    (await client.call('GET', '/databases?limit=1000')).body,
    (await client.call('GET', '/tasks')).body,
    client.audit,
    lines,
    (await client.cluster.list('ManagedDatabase', { namespace })).items,
    (await client.cluster.list('Branch', { namespace })).items,
    (await client.cluster.list('Task', { namespace })).items,
    (await client.cluster.list('ConfigMap', { namespace })).items,
    (await client.cluster.list('Secret', { namespace })).items,
  ])
  expect(everything.length).toBeGreaterThan(20_000)
  for (const secret of [...Object.values(given), 'bearer-9e02', 'bearer-changed', 'lovelace', 'minted-for', 'x-9e02'])
    expect(everything.includes(secret), secret).toBe(false)
})
