/** The retrieval server: pipelines that read as `app_read_only`. */
import type { ServiceConfig } from '../../../crds/services.ts'
import {
  authorityFile,
  baseUrlOf,
  container,
  fileAt,
  hostOf,
  newest,
  passwordsOf,
  samplesVariables,
  selfCheckPath,
} from './parts.ts'
import { servicePorts } from './ports.ts'
import { Variable, yamlWithVariables } from './text.ts'
import type { Rendering, ServiceInput } from './types.ts'

type RagConfig = NonNullable<ServiceConfig['rag']>
type Pipeline = RagConfig['pipelines'][number]
type Model = RagConfig['embeddingLlm']
type ModelKind = 'embedding_llm' | 'completion_llm'

const configurationFile = 'rag.yaml'
const { http: port, samples } = servicePorts.rag

export function renderRag(input: ServiceInput, config: RagConfig): Rendering {
  const refused = refusalOf(input, config)
  if (refused !== undefined) return refused
  const { settings, database } = input
  const fileWith = (password: string | undefined) => yamlWithVariables(documentOf(input, config, password))
  return {
    kind: 'rendered',
    service: {
      files: async () => ({
        [configurationFile]: fileWith(passwordsOf(input, 'app_read_only')),
        [authorityFile]: database.authority,
      }),
      containers: [
        container({
          name: 'rag',
          args: ['rag', fileAt(configurationFile)],
          environment: samplesVariables(samples),
          ports: [
            { name: 'http', port },
            { name: 'samples', port: samples },
          ],
          ready: { port, path: selfCheckPath },
          readiness: { port, path: '/v1/live' },
          resources: settings.resources.rag,
        }),
      ],
      writable: [],
      terminationGracePeriodSeconds: 60,
      essential: [fileWith(newest(input, 'app_read_only')), database.authority, settings.resources.rag],
    },
  }
}

/** The model of the pipeline, or otherwise the service's. */
const modelOf = (config: RagConfig, pipeline: Pipeline, kind: ModelKind): Model =>
  kind === 'embedding_llm'
    ? (pipeline.embeddingLlm ?? config.embeddingLlm)
    : (pipeline.completionLlm ?? config.completionLlm)

const serviceModel = (config: RagConfig, kind: ModelKind): Model =>
  kind === 'embedding_llm' ? config.embeddingLlm : config.completionLlm

/** A key belongs to one provider. So a pipeline with another provider does not inherit the service's key. */
function keyOf({ keys }: ServiceInput, config: RagConfig, pipeline: Pipeline, kind: ModelKind): string | undefined {
  const own = keys[`pipelines.${pipeline.name}.${kind}_api_key`]
  const isSame = modelOf(config, pipeline, kind).provider === serviceModel(config, kind).provider
  return own ?? (isSame ? keys[`${kind}_api_key`] : undefined)
}

function refusalOf(input: ServiceInput, config: RagConfig): Rendering | undefined {
  const refuse = (fields: readonly string[], message: string): Rendering => ({
    kind: 'refused',
    type: 'rag',
    fields,
    message,
  })
  const without = [config.embeddingLlm, ...config.pipelines.map(one => modelOf(config, one, 'embedding_llm'))]
  if (without.some(({ provider }) => provider === 'anthropic'))
    return refuse(['embedding_llm'], 'rag: embedding_llm.provider must be openai: anthropic has no embeddings')
  const kinds = ['embedding_llm', 'completion_llm'] as const
  const missing = config.pipelines.flatMap(pipeline =>
    kinds.flatMap(kind => {
      if (keyOf(input, config, pipeline, kind) !== undefined) return []
      const isSame = modelOf(config, pipeline, kind).provider === serviceModel(config, kind).provider
      return [isSame ? `${kind}_api_key` : `pipelines.${pipeline.name}.${kind}_api_key`]
    }),
  )
  const fields = [...new Set(missing)]
  return fields.length === 0 ? undefined : refuse(fields, `rag: the Secret has no ${fields.join(', ')}`)
}

function documentOf(input: ServiceInput, config: RagConfig, password: string | undefined): object {
  const host = hostOf(input)
  const { cors } = config
  return {
    server: {
      listen_address: new Variable(`\${POD_IP}`),
      port,
      ...(host === undefined ? {} : { allowed_hosts: [host] }),
      ...(cors === undefined
        ? {}
        : {
            cors: { enabled: cors.enabled, allowed_origins: cors.allowedOrigins?.length ? cors.allowedOrigins : ['*'] },
          }),
    },
    defaults: { token_budget: config.tokenBudget, top_n: config.topN },
    pipelines: config.pipelines.map(pipeline => pipelineOf(input, config, pipeline, password)),
  }
}

/** The pipelines of one service share its connections. */
const poolSize = ({ pipelines }: RagConfig): number => Math.max(2, Math.floor(10 / pipelines.length))

function pipelineOf(input: ServiceInput, config: RagConfig, pipeline: Pipeline, password: string | undefined): object {
  const { database } = input
  const model = (kind: ModelKind) => {
    const { provider, model: name } = modelOf(config, pipeline, kind)
    return { provider, model: name, api_key: keyOf(input, config, pipeline, kind), ...baseUrlOf(input, provider) }
  }
  return {
    name: pipeline.name,
    description: pipeline.description,
    database: {
      host: database.host,
      port: database.port,
      database: database.name,
      username: 'app_read_only',
      password,
      ssl_mode: 'verify-full',
      ssl_root_ca: authorityFile,
      pool_max_conns: poolSize(config),
    },
    tables: pipeline.tables.map(one => ({
      table: one.table,
      text_column: one.textColumn,
      vector_column: one.vectorColumn,
      id_column: one.idColumn,
      filter: one.filter?.trim() || undefined,
    })),
    embedding_llm: model('embedding_llm'),
    rag_llm: model('completion_llm'),
    token_budget: pipeline.tokenBudget,
    top_n: pipeline.topN,
    system_prompt: pipeline.systemPrompt || undefined,
    search: {
      hybrid_enabled: pipeline.hybridEnabled,
      vector_weight: pipeline.vectorWeight,
      min_similarity: pipeline.minSimilarity,
    },
  }
}
