/** What is said of schemas, tables and columns that services name, by what was found of them. */
import { describe, expect, test } from 'vitest'
import { type ServiceConfig, serviceConfig } from '../../crds/index.ts'
import type { FoundReferences } from '../postgres/administrator.ts'
import { configuredFinding, referencesOf } from './references.ts'

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

const whole = { exists: true, missing: [], vectors: [{ type: 'vector', dimensions: 1536 }] }
const found = (changes: Partial<FoundReferences> = {}): FoundReferences => ({
  ...{ missingSchemas: [], vector: 'installed', tables: [whole] },
  ...changes,
})
const around = { faults: [], pgVersion: '17', pgvectorVersions: ['18', '16'], isOwnAddress: true } as const
const findingOf = (changes: Partial<FoundReferences>, configs = [rest, rag]) =>
  configuredFinding(configs, found(changes), around)

describe('what services name', () => {
  test('is each schema once, and each table with its columns', () => {
    expect(referencesOf([rest, rag])).toEqual({
      schemas: ['public', 'api'],
      tables: [{ schema: 'library', name: 'docs', columns: ['content', 'embedding'], vectorColumn: 'embedding' }],
      needsVector: true,
      digest: expect.any(String),
    })
    const [bare] = referencesOf([ragOf([{ ...docs, table: 'docs', textColumn: 'embedding' }])])?.tables ?? []
    expect(bare).toEqual({ schema: undefined, name: 'docs', columns: ['embedding'], vectorColumn: 'embedding' })
  })

  test('is nothing where there is neither rest nor rag', () => {
    expect(referencesOf([serviceConfig.parse({ serviceType: 'mcp', serviceId: '00000003' })])).toBeUndefined()
  })
})

describe('what was found', () => {
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
      { tables: [{ ...whole, missing: ['content'] }] },
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
      { tables: [{ ...whole, vectors: [{ type: 'text', dimensions: -1 }] }] },
      'WrongColumn',
      'rag: pipeline docs: column embedding of library.docs has the type text; vector_column must be a vector or halfvec',
    ],
    [
      'dimensions',
      { tables: [{ ...whole, vectors: [{ type: 'vector', dimensions: 3 }] }] },
      'WrongDimensions',
      'rag: pipeline docs: column embedding of library.docs has 3 dimensions, and text-embedding-3-small gives 1536: change the column or the model',
    ],
  ])('without %s', (_what, changes, reason, message) => {
    expect(findingOf(changes)).toEqual({ status: 'False', reason, message })
  })

  test.each<[string, Partial<FoundReferences>]>([
    ['of that many dimensions', {}],
    ['of any dimensions', { tables: [{ ...whole, vectors: [{ type: 'halfvec', dimensions: -1 }] }] }],
    [
      'in one of two tables of that name',
      {
        tables: [
          {
            ...whole,
            vectors: [
              { type: 'text', dimensions: -1 },
              { type: 'vector', dimensions: 1536 },
            ],
          },
        ],
      },
    ],
  ])('with a vector %s, it is all there', (_what, changes) => {
    expect(findingOf(changes)).toMatchObject({ status: 'True', reason: 'Found' })
  })

  test('says nothing of the dimensions of a model whose name is known, at an address of the installation', () => {
    const seen = found({ tables: [{ ...whole, vectors: [{ type: 'vector', dimensions: 3 }] }] })
    expect(configuredFinding([rag], seen, { ...around, isOwnAddress: false })).toMatchObject({ status: 'True' })
  })

  test('is not waited for where a configuration breaks a rule', () => {
    const faults = [{ type: 'rag', field: 'pipelines[0].tables[0].filter', rule: 'must be one SQL condition' }] as const
    expect(configuredFinding([rag], undefined, { ...around, faults })).toEqual({
      ...{ status: 'False', reason: 'WrongConfiguration' },
      message: 'rag: pipelines[0].tables[0].filter must be one SQL condition',
    })
    expect(configuredFinding([rag], undefined, around)).toBeUndefined()
  })

  test('names some faults, and how many more there are', () => {
    const tables = Array.from({ length: 7 }, (_, index) => ({ ...docs, table: `t${index}` }))
    const missing = tables.map(() => ({ exists: false, missing: [], vectors: [] }))
    const { reason, message = '' } = configuredFinding([ragOf(tables)], found({ tables: missing }), around) ?? {}
    expect(reason).toBe('UnknownTable')
    expect(message).toContain('there is no table t4')
    expect(message).not.toContain('there is no table t5')
    expect(message).toMatch(/; and 2 more$/)
  })
})
