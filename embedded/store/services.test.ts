/** The same rules check services from `kubectl apply` and from the API. */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import { apiVersion, declarations } from '../../crds/index.ts'
import { openStore } from './index.ts'

let cluster: Cluster
let close: () => Promise<void>
beforeAll(async () => {
  const definitions = [declarations.ManagedDatabase].map(definitionOf)
  const store = await openStore({ definitions, logger: pino({ level: 'silent' }) })
  cluster = store.connect('test')
  close = () => store.close()
  await cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'tenant' } })
})
afterAll(() => close())

let databases = 0
const apply = (...services: unknown[]) => {
  const spec = { region: 'local', size: { name: 'small', version: 1 }, pgVersion: '18' as const, services }
  const metadata = { name: `d${databases++}`, namespace: 'tenant' }
  return cluster.create('ManagedDatabase', { apiVersion, kind: 'ManagedDatabase', metadata, spec: spec as object })
}
const secret = { name: 'keys' }
const mcp = { serviceType: 'mcp', serviceId: '0a1b2c3d' }
const rest = { serviceType: 'rest', serviceId: '0a1b2c3e', rest: { dbSchemas: 'public', dbAnonRole: 'web' } }
const llm = { provider: 'openai', model: 'm' }
const pipeline = { name: 'docs', tables: [{ table: 't', textColumn: 'c', vectorColumn: 'v' }] }
const ragOf = (more: object) => ({ embeddingLlm: llm, completionLlm: llm, pipelines: [pipeline], ...more })
const rag = { serviceType: 'rag', serviceId: '0a1b2c3f', secret, rag: ragOf({}) }

test('three services are accepted', async () => {
  expect((await apply(mcp, rest, rag)).spec.services).toHaveLength(3)
})

test.each<[string, object[], RegExp]>([
  ['a second service of the same type', [mcp, { ...mcp, serviceId: '11111111' }], /Duplicate value/],
  [
    "a service with another type's configuration",
    [{ ...mcp, rest: rest.rest }],
    /rest is required for a rest service, and only there/,
  ],
  ['a service without a configuration', [{ ...rest, rest: undefined }], /rest is required for a rest service/],
  [
    'an anonymous role that belongs to Espalier',
    [{ ...rest, rest: { ...rest.rest, dbAnonRole: 'app' } }],
    /dbAnonRole must be a role of your own/,
  ],
  [
    'an anonymous role that belongs to Postgres',
    [{ ...rest, rest: { ...rest.rest, dbAnonRole: 'pg_monitor' } }],
    /dbAnonRole must be a role of your own/,
  ],
  [
    'a provider without a model',
    [{ ...mcp, secret, mcp: { embeddingProvider: 'openai' } }],
    /embeddingModel is required/,
  ],
  [
    'a provider without a Secret for its key',
    [{ ...mcp, mcp: { embeddingProvider: 'openai', embeddingModel: 'm' } }],
    /secret is required where/,
  ],
  ['a rag service without a Secret', [{ ...rag, secret: undefined }], /secret is required for a rag service/],
  [
    'a rag service with embeddings from anthropic',
    [{ ...rag, rag: ragOf({ embeddingLlm: { ...llm, provider: 'anthropic' } }) }],
    /anthropic, which has no embeddings/,
  ],
  [
    'a second pipeline with the same name',
    [{ ...rag, rag: ragOf({ pipelines: [pipeline, pipeline] }) }],
    /Duplicate value/,
  ],
])('%s is refused', async (_what, services, message) => {
  await expect(apply(...services)).rejects.toThrow(message)
})
