/** The three services of a benchmark's database, and the Secret that their configuration names. */
import type { Draft } from '../cluster/index.ts'
import type { ServiceConfig } from '../crds/index.ts'
import { testNamespace } from '../operator/testing/installation.ts'

const ipAllowlist = { rules: [{ cidr: '203.0.113.0/24' }] }
const model = (name: string) => ({ provider: 'openai' as const, model: name })
export const services: ServiceConfig[] = [
  { serviceType: 'mcp', serviceId: '00000001', ipAllowlist, mcp: { allowWrites: false } },
  {
    ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist },
    rest: { dbSchemas: 'public', dbAnonRole: 'web', dbPool: 10, maxRows: 1000 },
  },
  {
    ...{ serviceType: 'rag', serviceId: '00000003', ipAllowlist, secret: { name: 'keys' } },
    rag: {
      ...{ embeddingLlm: model('e'), completionLlm: model('c'), tokenBudget: 1000, topN: 10 },
      pipelines: [
        {
          ...{ name: 'docs', hybridEnabled: true, minSimilarity: 0, vectorWeight: 0.5 },
          tables: [{ table: 'docs', textColumn: 'body', vectorColumn: 'embedding', idColumn: 'id' }],
        },
      ],
    },
  },
]
const encoded = Buffer.from('key').toString('base64')
export const providerKeys: Draft<'Secret'> = {
  ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'keys', namespace: testNamespace } },
  data: { embedding_llm_api_key: encoded, completion_llm_api_key: encoded },
}
