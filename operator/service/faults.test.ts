/**
 * Configurations that the resource's schema accepts, but the API refuses. The operator reports them with the API's
 * message.
 */
import { expect, test } from 'vitest'
import { type ServiceConfig, serviceConfig } from '../../crds/index.ts'
import { faultsOf } from './faults.ts'

const restOf = (changes: object): ServiceConfig =>
  serviceConfig.parse({
    ...{ serviceType: 'rest', serviceId: '00000001' },
    rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', ...changes },
  })
const model = { provider: 'openai', model: 'm' }
const table = { table: 'docs', textColumn: 'content', vectorColumn: 'embedding' }
const ragOf = (changes: object, more: object = {}): ServiceConfig =>
  serviceConfig.parse({
    ...{ serviceType: 'rag', serviceId: '00000002', secret: { name: 'keys' } },
    rag: {
      ...{ embeddingLlm: model, completionLlm: model, ...more },
      pipelines: [{ name: 'docs', tables: [table, { ...table, ...changes }] }],
    },
  })

test.each<[string, ServiceConfig, string, RegExp]>([
  ['an empty schema name', restOf({ dbSchemas: 'a,,b' }), 'db_schemas', /^must be names of schemas/],
  ['a schema twice', restOf({ dbSchemas: 'a, a' }), 'db_schemas', /^must not name a schema twice/],
  ['a system schema of Postgres', restOf({ dbSchemas: 'pg_catalog' }), 'db_schemas', /^must not name pg_catalog/],
  ['a role that Postgres cannot have', restOf({ dbAnonRole: 'a\0b' }), 'db_anon_role', /^must be the name of a role/],
  ['a path that leads to no claim', restOf({ jwtRoleClaimKey: '.role[' }), 'jwt_role_claim_key', /./],
  ['no origin', restOf({ corsOrigins: 'example.com' }), 'cors_origins', /^must be origins/],
  [
    'an invalid origin of rag',
    ragOf({}, { cors: { enabled: true, allowedOrigins: ['https://a.example', 'b'] } }),
    'cors.allowed_origins[1]',
    /^must be an origin/,
  ],
  [
    'a table in a database',
    ragOf({ table: 'app.public.docs' }),
    'pipelines[0].tables[1].table',
    /^must be the name of a table, as table or schema\.table/,
  ],
  ['half a name', ragOf({ table: 'public.' }), 'pipelines[0].tables[1].table', /^must be the name of a table/],
  ['two conditions', ragOf({ filter: 'true) OR (true' }), 'pipelines[0].tables[1].filter', /^is not one SQL condition/],
  ['a statement', ragOf({ filter: 'true; DROP TABLE docs' }), 'pipelines[0].tables[1].filter', /SQL condition/],
])('%s', async (_what, config, field, rule) => {
  const expected = [{ type: config.serviceType, field, rule: expect.stringMatching(rule) }]
  expect(await faultsOf([config])).toEqual(expected)
  expect(await faultsOf([config])).toEqual(expected)
})

test('filters that are too long in total are not parsed', async () => {
  const long = { ...table, filter: `a = '${'x'.repeat(3_900)}'` }
  const pipelines = [{ name: 'docs', tables: Array.from({ length: 30 }, () => long) }]
  const config = ragOf({})
  const tooLong = { ...config, rag: { ...config.rag, pipelines } } as ServiceConfig
  expect(await faultsOf([tooLong])).toEqual([
    { type: 'rag', field: 'pipelines', rule: 'must have filters of at most 100000 characters in total' },
  ])
})

test('a valid configuration and an empty one have no faults', async () => {
  const right = [
    restOf({ dbSchemas: 'public, "api"', jwtRoleClaimKey: '.role', corsOrigins: '' }),
    ragOf({ table: 'library.docs', filter: "tenant = 'a'" }),
    ragOf({ filter: '  ' }),
    serviceConfig.parse({ serviceType: 'mcp', serviceId: '00000003' }),
  ]
  for (const config of right) expect(await faultsOf([config])).toEqual([])
})
