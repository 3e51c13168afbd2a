/** The API description: complete, consistent, and suitable for client generators. */
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Client, startClient } from './testing/client.ts'
import {
  type Description,
  type DocumentedOperation,
  definitionsOf,
  descriptionOf,
  responseOf,
} from './testing/contract.ts'

let client: Client
let description: Description
let operations: { path: string; method: string; operation: DocumentedOperation }[]
beforeAll(async () => {
  client = await startClient()
  description = await descriptionOf(client.app)
  operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
})
afterAll(() => client.close())

const references = (node: unknown): string[] => {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]) => (key === '$ref' ? [String(value)] : references(value)))
}

test('describes exactly the existing routes', () => {
  expect(operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`).sort()).toEqual([
    'DELETE /managed/v1/backups/{id}',
    'DELETE /managed/v1/databases/{id}',
    'DELETE /managed/v1/databases/{id}/branches/{branch_id}',
    'DELETE /managed/v1/databases/{id}/previous/{incarnation}',
    'DELETE /managed/v1/deleted-databases/{id}',
    'GET /healthz',
    'GET /managed/v1/audit',
    'GET /managed/v1/backups',
    'GET /managed/v1/backups/{id}',
    'GET /managed/v1/ca.pem',
    'GET /managed/v1/client-ip',
    'GET /managed/v1/databases',
    'GET /managed/v1/databases/{id}',
    'GET /managed/v1/databases/{id}/branches',
    'GET /managed/v1/databases/{id}/branches/{branch_id}',
    'GET /managed/v1/databases/{id}/branches/{branch_id}/logs',
    'GET /managed/v1/databases/{id}/branches/{branch_id}/metrics',
    'GET /managed/v1/databases/{id}/branches/{branch_id}/queries',
    'GET /managed/v1/databases/{id}/logs',
    'GET /managed/v1/databases/{id}/metrics',
    'GET /managed/v1/databases/{id}/previous',
    'GET /managed/v1/databases/{id}/queries',
    'GET /managed/v1/databases/{id}/recovery-window',
    'GET /managed/v1/deleted-databases',
    'GET /managed/v1/events',
    'GET /managed/v1/login',
    'GET /managed/v1/openapi.json',
    'GET /managed/v1/pg-versions',
    'GET /managed/v1/regions',
    'GET /managed/v1/sizes',
    'GET /managed/v1/sizes/{id}',
    'GET /managed/v1/tasks',
    'GET /managed/v1/tasks/{id}',
    'GET /readyz',
    'PATCH /managed/v1/databases/{id}',
    'PATCH /managed/v1/databases/{id}/branches/{branch_id}',
    'POST /managed/v1/backups/{id}/verify',
    'POST /managed/v1/databases',
    'POST /managed/v1/databases/{id}/backup',
    'POST /managed/v1/databases/{id}/branches',
    'POST /managed/v1/databases/{id}/branches/{branch_id}/services/mcp/try',
    'POST /managed/v1/databases/{id}/branches/{branch_id}/services/rag/try',
    'POST /managed/v1/databases/{id}/branches/{branch_id}/services/rest/try',
    'POST /managed/v1/databases/{id}/branches/{branch_id}/sql',
    'POST /managed/v1/databases/{id}/restart',
    'POST /managed/v1/databases/{id}/restore',
    'POST /managed/v1/databases/{id}/resume',
    'POST /managed/v1/databases/{id}/roles/{role}/rotate-password',
    'POST /managed/v1/databases/{id}/services/mcp/try',
    'POST /managed/v1/databases/{id}/services/rag/try',
    'POST /managed/v1/databases/{id}/services/rest/try',
    'POST /managed/v1/databases/{id}/size',
    'POST /managed/v1/databases/{id}/sql',
    'POST /managed/v1/databases/{id}/suspend',
    'POST /managed/v1/databases/{id}/undelete',
  ])
})

test('passes an independent validator', async () => {
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: JSON.stringify(description), config })
  expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([])
})

test('operations keep the ids that clients use', () => {
  expect(operations.map(({ operation }) => operation.operationId).sort()).toEqual([
    ...['createBackup', 'createBranch', 'createDatabase', 'deleteBackup', 'deleteBranch', 'deleteDatabase'],
    'deletePreviousVolume',
    ...['getBackup', 'getBranch', 'getBranchLogs', 'getBranchMetrics', 'getBranchQueries'],
    ...['getCertificateAuthority', 'getClientIp'],
    ...[
      'getDatabase',
      'getDatabaseLogs',
      'getDatabaseMetrics',
      'getDatabaseQueries',
      'getHealth',
      'getLogin',
      'getOpenapi',
    ],
    'getReadiness',
    'getRecoveryWindow',
    ...[
      'getSize',
      'getTask',
      'listAuditEntries',
      'listBackups',
      'listBranches',
      'listDatabases',
      'listDeletedDatabases',
      'listPgVersions',
    ],
    ...['listPreviousVolumes', 'listRegions'],
    ...[
      'listSizes',
      'listTasks',
      'moveBranch',
      'purgeDeletedDatabase',
      'resizeDatabase',
      'restartDatabase',
      'restoreDatabase',
      'resumeDatabase',
    ],
    ...[
      'rotatePassword',
      'runBranchSql',
      'runSql',
      'streamEvents',
      'suspendDatabase',
      'tryBranchMcp',
      'tryBranchRag',
      'tryBranchRest',
      'tryMcp',
      'tryRag',
      'tryRest',
      'undeleteDatabase',
      'updateDatabase',
      'verifyBackup',
    ],
  ])
})

test('an optional body is not marked as required', () => {
  const bodyOf = (path: string) => description.paths[`/managed/v1/${path}`]?.post?.requestBody
  expect(bodyOf('databases/{id}/branches')).toMatchObject({ required: false })
  expect(bodyOf('databases')).toMatchObject({ required: true })
})

test('an undocumented route makes the start fail', async () => {
  const { describeRoutes } = await import('./openapi.ts')
  const { default: Fastify } = await import('fastify')
  const app = Fastify()
  await describeRoutes(app as never)
  app.get('/undocumented', async () => 'x')
  await app.ready()
  expect(() => app.swagger()).toThrow(/the route \/undocumented is not documented/)
  await app.close()
})

describe('is consistent', () => {
  test('version, reference and name', () => {
    expect(description).toMatchObject({ openapi: '3.1.0', info: { version: '1.0.0' } })
    for (const reference of references(description)) {
      const [kind, name] = /^#\/components\/(schemas|responses|headers)\/(.+)$/.exec(reference)?.slice(1) ?? []
      expect(description.components, reference).toHaveProperty([kind ?? '', name ?? ''])
    }
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids) expect(id).toMatch(/^[a-z][A-Za-z]+$/)
  })

  test('every operation has a tag, a description, its refusals, and its path parameters', () => {
    for (const { path, method, operation } of operations) {
      const what = `${method} ${path}`
      expect(operation.tags, what).toHaveLength(1)
      expect(operation.description, what).toMatch(/\w/)
      const statuses = Object.keys(operation.responses)
      expect(
        statuses.some(status => /^2\d\d$/.test(status)),
        what,
      ).toBe(true)
      expect(statuses, what).toContain('default')
      if (operation.security === undefined)
        expect(statuses, what).toEqual(expect.arrayContaining(['401', '403', '429', '503']))
      if (method !== 'get') expect(statuses, what).toEqual(expect.arrayContaining(['413', '415']))
      for (const status of statuses) {
        const { content, headers } = responseOf(description, operation, status) ?? {}
        expect(headers, what).toHaveProperty('X-Request-Id')
        if (!/^[23]/.test(status))
          expect(content?.['application/json']?.schema).toEqual({ $ref: '#/components/schemas/Error' })
      }
      const named = (operation.parameters ?? []).filter(parameter => parameter.in === 'path').map(({ name }) => name)
      expect(named, what).toEqual([...path.matchAll(/\{([^}]+)\}/g)].map(match => match[1]))
      for (const parameter of operation.parameters ?? []) expect(parameter.required, what).toBe(parameter.in === 'path')
    }
  })

  test('describes everything that can be described, in complete sentences', () => {
    const undescribed: string[] = []
    const look = (node: unknown, place: string, needs: boolean): void => {
      if (typeof node !== 'object' || node === null) return
      const { description: text, properties, items, $ref } = node as Record<string, unknown>
      const isSentence = /^[\dA-Z`].*[.]$/s.test(String(text ?? ''))
      if (text === undefined ? needs && $ref === undefined : !isSentence) undescribed.push(`${place}: ${text}`)
      for (const [name, inner] of Object.entries(properties ?? {})) look(inner, `${place}.${name}`, true)
      look(items, `${place}[]`, false)
    }
    const { schemas, responses, headers } = description.components
    for (const [name, shape] of Object.entries({ ...schemas, ...responses, ...headers })) look(shape, name, true)
    for (const { method, path, operation } of operations) {
      const what = `${method} ${path}`
      expect(operation.summary, what).toMatch(/^[A-Z].*[^.]$/)
      look(operation, what, true)
      for (const parameter of operation.parameters ?? []) look(parameter, `${what} ${parameter.name}`, true)
      for (const [status, response] of Object.entries(operation.responses)) look(response, `${what} ${status}`, true)
    }
    expect([...new Set(undescribed)]).toEqual([])
  })

  test('every shape has a name, and every object has a valid example', () => {
    const definitions = definitionsOf(description)
    for (const [name, schema] of Object.entries(description.components.schemas)) {
      const readable = z.fromJSONSchema({ ...definitions[name], $defs: definitions })
      if (schema.type === 'object') expect(schema, name).toHaveProperty('example')
      if ('example' in schema) expect(readable.safeParse(schema.example).error, name).toBeUndefined()
    }
    for (const { path, method, operation } of operations) {
      const answers = Object.keys(operation.responses).map(status => responseOf(description, operation, status))
      for (const body of [operation.requestBody, ...answers]) {
        const schema = body?.content?.['application/json']?.schema
        const inner = schema?.type === 'array' ? schema.items : schema
        if (schema !== undefined && !path.includes('openapi')) expect(inner, `${method} ${path}`).toHaveProperty('$ref')
      }
    }
  })

  test('no two shapes are equal', () => {
    const shapes = Object.entries(description.components.schemas).map(([name, { description: _, ...shape }]) => ({
      name,
      shape: JSON.stringify(shape),
    }))
    const groups = [...Map.groupBy(shapes, ({ shape }) => shape).values()].map(group => group.map(({ name }) => name))
    expect(groups.filter(names => names.length > 1)).toEqual([])
  })

  test('responses may gain fields and values, inputs accept no others', () => {
    const { ManagedDatabase, CreateManagedDatabaseInput } = description.components.schemas
    expect(ManagedDatabase).not.toHaveProperty('additionalProperties')
    expect(CreateManagedDatabaseInput).toHaveProperty('additionalProperties', false)
    const answered = new Set(
      operations.flatMap(({ operation }) =>
        Object.keys(operation.responses).flatMap(status => references(responseOf(description, operation, status))),
      ),
    )
    for (const reference of answered) {
      const name = reference.split('/').at(-1) ?? ''
      for (const inner of references(description.components.schemas[name])) answered.add(inner)
      expect(JSON.stringify(description.components.schemas[name] ?? {}), name).not.toMatch(/"(enum|oneOf)":/)
    }
    expect(answered.size).toBeGreaterThan(25)
    const { status } = Object(ManagedDatabase?.properties)
    expect(status).toMatchObject({ type: 'string', 'x-extensible-enum': expect.arrayContaining(['modifying']) })
  })
})

test('publishes each shape with the fields that clients rely on', () => {
  const { schemas } = description.components
  const required = (name: string) => [...((schemas[name]?.required ?? []) as string[])].sort()
  const optional = (name: string) =>
    Object.keys(schemas[name]?.properties ?? {})
      .filter(field => !required(name).includes(field))
      .sort()
  expect(required('ManagedDatabase')).toEqual([
    'created_at',
    'id',
    'ip_allowlist',
    'name',
    'region',
    'size',
    'status',
    'updated_at',
  ])
  expect(optional('ManagedDatabase')).toEqual([
    'attention',
    'backup',
    'branch_count',
    'branch_limit',
    'connection',
    'credentials',
    'deletion_protection',
    'display_name',
    'domain',
    'import',
    'options',
    'pg_version',
    'port',
    'services',
    'storage',
    'storage_used',
  ])
  expect(required('ManagedConnection')).toEqual(['database', 'password', 'port', 'username'])
  expect(optional('ManagedConnection')).toEqual(['external_ip_address', 'host'])
  expect(required('Branch')).toEqual([
    'created_at',
    'database_id',
    'depth',
    'id',
    'ip_allowlist',
    'name',
    'pg_version',
    'region',
    'size',
    'status',
    'updated_at',
  ])
  expect(required('Backup')).toEqual(['created_at', 'database_id', 'id', 'kind', 'metadata', 'name', 'status'])
  expect(optional('Backup')).toEqual(['finished_at', 'purpose'])
  expect(required('Task')).toEqual([
    'created_at',
    'id',
    'messages',
    'name',
    'status',
    'subject_id',
    'subject_kind',
    'updated_at',
  ])
  expect(optional('Task')).toEqual(['error', 'request', 'response', 'subject_name'])
  expect(optional('Size')).toEqual(['deprecated_at', 'pricing', 'retired_at'])
  expect(required('SizePricing')).toEqual(['billing_interval', 'currency', 'price_amount'])
  expect(required('CreateManagedDatabaseInput')).toEqual(['name', 'region', 'size'])
  expect(required('UpdateManagedDatabaseInput')).toEqual([])
  expect(required('Error')).toEqual(['code', 'message'])
  expect(required('RAGServiceConfig')).toEqual(expect.arrayContaining(['completion_llm', 'embedding_llm', 'pipelines']))
  // The default is one level down, because generated clients would have to send a member that has a default.
  const omitted = (value: unknown) => ({
    allOf: [{ default: value }],
    description: expect.stringContaining('Omitted: '),
  })
  expect(schemas.RestServiceConfigInput?.properties).toMatchObject({
    db_pool: { type: 'integer', minimum: 1, maximum: 30, ...omitted(10) },
    max_rows: { type: 'integer', minimum: 1, maximum: 10000, ...omitted(1000) },
    jwt_secret: { minLength: 32, writeOnly: true },
  })
  expect(schemas.RAGServiceConfigInput?.properties).toMatchObject({
    token_budget: omitted(1000),
    top_n: omitted(10),
  })
  expect(schemas.RAGPipelineConfigInput?.properties).toMatchObject({
    hybrid_enabled: omitted(true),
    min_similarity: { minimum: 0, maximum: 1, ...omitted(0) },
    vector_weight: { minimum: 0, maximum: 1, ...omitted(0.5) },
  })
  expect(schemas.RAGEmbeddingTable?.properties).toMatchObject({ id_column: omitted('id') })
  expect(required('RestServiceConfigInput')).toEqual(['db_anon_role', 'db_schemas'])
  expect(schemas.ServiceConfigInput).toMatchObject({
    oneOf: ['MCPServiceInput', 'RestServiceInput', 'RAGServiceInput'].map(name => ({
      $ref: `#/components/schemas/${name}`,
    })),
    discriminator: { propertyName: 'service_type', mapping: { mcp: '#/components/schemas/MCPServiceInput' } },
  })
  expect(required('RestServiceInput')).toEqual(['rest_config', 'service_type'])
  for (const name of ['RestServiceConfig', 'RAGLLMConfig']) {
    expect(Object.keys(schemas[name]?.properties ?? {})).not.toEqual(expect.arrayContaining(['jwt_secret', 'api_key']))
  }
  const limit = operations.find(({ operation }) => operation.operationId === 'listBackups')?.operation.parameters
  expect(limit?.find(({ name }) => name === 'limit')?.schema).toEqual({
    type: 'integer',
    minimum: 1,
    default: 100,
  })
})

test('the documentation page loads nothing from other hosts', async () => {
  const page = await client.call('GET', './docs', { token: null })
  expect(page.status).toBe(200)
  expect(String(page.headers['content-security-policy'])).toMatch(/^default-src 'self';/)
  expect(page.body).not.toMatch(/(src|href)="(https?:)?\/\//)
  const script = await client.call('GET', './docs/static/swagger-initializer.js', { token: null })
  expect(script.body).toContain('/managed/v1/openapi.json')
  expect(script.body).toContain('"validatorUrl":null')
  expect(script.body).toContain('"layout":"BaseLayout"')
  for (const match of String(page.body).matchAll(/(?:src|href)="([^"]+)"/g)) {
    expect((await client.call('GET', `.${match[1]}`, { token: null })).status, match[1]).toBe(200)
  }
})
