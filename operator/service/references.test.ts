/** The findings about schemas, tables and columns that services name, according to Postgres's answer. */
import { describe, expect, test } from 'vitest'
import { type ServiceConfig, serviceConfig } from '../../crds/index.ts'
import type { FoundReferences } from '../postgres/administrator.ts'
import { configurationFaults, configuredFinding, faultsOfService, referencesOf } from './references.ts'

const rest: ServiceConfig = serviceConfig.parse({
  ...{ serviceType: 'rest', serviceId: '00000001' },
  rest: { dbSchemas: 'public, api,public', dbAnonRole: 'web_anon' },
})
const model = { provider: 'openai', model: 'text-embedding-3-small' }
const ragOf = (tables: object[], more: object = {}): ServiceConfig =>
  serviceConfig.parse({
    ...{ serviceType: 'rag', serviceId: '00000002', secret: { name: 'keys' } },
    rag: { embeddingLlm: model, completionLlm: model, pipelines: [{ name: 'docs', tables, ...more }] },
  })
const docs = { table: 'library.docs', textColumn: 'content', vectorColumn: 'embedding' }
const rag = ragOf([docs])

const complete = { exists: true, missing: [], vectors: [{ type: 'vector', dimensions: 1536 }] }
const found = (changes: Partial<FoundReferences> = {}): FoundReferences => ({
  ...{ missingSchemas: [], vector: 'installed', tables: [complete] },
  ...changes,
})
type Around = Parameters<typeof configurationFaults>[2]
const around = { faults: [], pgVersion: '17', pgvectorVersions: ['18', '16'], isOwnAddress: true } as const
const conditionOf = (configs: ServiceConfig[], seen: FoundReferences | undefined, given: Around = around) =>
  configuredFinding(configurationFaults(configs, seen, given), seen !== undefined)
const findingOf = (changes: Partial<FoundReferences>, configs = [rest, rag]) => conditionOf(configs, found(changes))

describe('the objects that services name', () => {
  test('include each schema once, and each table with its columns', () => {
    expect(referencesOf([rest, rag])).toEqual({
      schemas: ['public', 'api'],
      tables: [{ schema: 'library', name: 'docs', columns: ['content', 'embedding'], vectorColumn: 'embedding' }],
      needsVector: true,
      digest: expect.any(String),
    })
    const [bare] = referencesOf([ragOf([{ ...docs, table: 'docs', textColumn: 'embedding' }])])?.tables ?? []
    expect(bare).toEqual({ schema: undefined, name: 'docs', columns: ['embedding'], vectorColumn: 'embedding' })
  })

  test('do not exist without rest and rag', () => {
    expect(referencesOf([serviceConfig.parse({ serviceType: 'mcp', serviceId: '00000003' })])).toBeUndefined()
  })
})

describe('the findings', () => {
  test.each<[string, Partial<FoundReferences>, string, string]>([
    [
      'a schema',
      { missingSchemas: ['api'] },
      'UnknownSchema',
      'rest: db_schemas names the schema api, which does not exist: create it, or remove it from db_schemas',
    ],
    [
      'pgvector',
      { vector: 'absent' },
      'MissingExtension',
      'rag needs pgvector, which Postgres 17 does not have here; versions that have it: 18, 16; "make pgvector" adds it',
    ],
    [
      'the extension',
      { vector: 'available' },
      'MissingExtension',
      'rag needs the extension vector, which the database app does not have: run CREATE EXTENSION vector',
    ],
    [
      'a table',
      { tables: [{ exists: false, missing: ['content', 'embedding'], vectors: [] }] },
      'UnknownTable',
      "rag: pipeline docs: there is no table library.docs: create it, or name another in the pipeline's tables",
    ],
    [
      'the text',
      { tables: [{ ...complete, missing: ['content'] }] },
      'UnknownColumn',
      'rag: pipeline docs: table library.docs has no column content: add it, or name another in text_column',
    ],
    [
      'the vector',
      { tables: [{ exists: true, missing: ['embedding'], vectors: [] }] },
      'UnknownColumn',
      'rag: pipeline docs: table library.docs has no column embedding: add it, or name another in vector_column',
    ],
    [
      'a type',
      { tables: [{ ...complete, vectors: [{ type: 'text', dimensions: -1 }] }] },
      'WrongColumn',
      'rag: pipeline docs: column embedding of library.docs has the type text; vector_column must be a vector or halfvec',
    ],
    [
      'dimensions',
      { tables: [{ ...complete, vectors: [{ type: 'vector', dimensions: 3 }] }] },
      'WrongDimensions',
      'rag: pipeline docs: column embedding of library.docs has 3 dimensions, and text-embedding-3-small returns 1536: change the column or the model',
    ],
  ])('without %s', (_what, changes, reason, message) => {
    expect(findingOf(changes)).toEqual({ status: 'False', reason, message })
  })

  test.each<[string, Partial<FoundReferences>]>([
    ["with the model's number of dimensions", {}],
    ['without fixed dimensions', { tables: [{ ...complete, vectors: [{ type: 'halfvec', dimensions: -1 }] }] }],
    [
      'in one of two tables with that name',
      {
        tables: [
          {
            ...complete,
            vectors: [
              { type: 'text', dimensions: -1 },
              { type: 'vector', dimensions: 1536 },
            ],
          },
        ],
      },
    ],
  ])('are empty with a vector %s', (_what, changes) => {
    expect(findingOf(changes)).toMatchObject({ status: 'True', reason: 'Found' })
  })

  test('ignore the dimensions of a known model name at an address of the installation', () => {
    const seen = found({ tables: [{ ...complete, vectors: [{ type: 'vector', dimensions: 3 }] }] })
    expect(conditionOf([rag], seen, { ...around, isOwnAddress: false })).toMatchObject({ status: 'True' })
  })

  test('are reported for each service separately', () => {
    const faults = configurationFaults([rest, rag], found({ missingSchemas: ['api'], tables: [] }), around)
    expect(faultsOfService(faults, 'rest')).toMatch(/^db_schemas names the schema api/)
    expect(faultsOfService(faults, 'rag')).toBeUndefined()
  })

  test('do not delay the finding if a configuration violates a rule', () => {
    const faults = [{ type: 'rag', field: 'pipelines[0].tables[0].filter', rule: 'must be one SQL condition' }] as const
    expect(conditionOf([rag], undefined, { ...around, faults })).toEqual({
      ...{ status: 'False', reason: 'WrongConfiguration' },
      message: 'rag: pipelines[0].tables[0].filter must be one SQL condition',
    })
    expect(conditionOf([rag], undefined, around)).toBeUndefined()
  })

  test('name some faults, and the number of the other ones', () => {
    const tables = Array.from({ length: 7 }, (_, index) => ({ ...docs, table: `t${index}` }))
    const missing = tables.map(() => ({ exists: false, missing: [], vectors: [] }))
    const { reason, message = '' } = conditionOf([ragOf(tables)], found({ tables: missing }), around) ?? {}
    expect(reason).toBe('UnknownTable')
    expect(message).toContain('there is no table t4')
    expect(message).not.toContain('there is no table t5')
    expect(message).toMatch(/; and 2 more$/)
  })
})
