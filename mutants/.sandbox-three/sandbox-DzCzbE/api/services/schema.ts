/**
 * ServiceConfig as the API takes and gives it: the fields of `crds/services.ts` in snake case with the same limits, plus
 * the secrets, which resources never hold.
 */
// @ts-nocheck

import { z } from 'zod'
import {
  embeddingTable,
  llmConfig,
  mcpServiceConfig,
  ragPipeline,
  ragServiceConfig,
  restServiceConfig,
  serviceConfig,
  serviceTypes,
} from '../../crds/index.ts'
import { allowlistInput, allowlistShape } from '../databases/allowlist.ts'
import { ignored } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'

const mcp = mcpServiceConfig.shape
const rest = restServiceConfig.shape
const rag = ragServiceConfig.shape
const pipeline = ragPipeline.shape
const table = embeddingTable.shape

const providerKey = z.string().min(1).max(4096)

const mcpFields = {
  allow_writes: mcp.allowWrites.describe('`true` lets the query tool write. For development and test databases only.'),
  embedding_provider: mcp.embeddingProvider.describe(
    'Whose embeddings to use. Turns on the generate_embedding tool, and needs embedding_model.',
  ),
  embedding_model: mcp.embeddingModel.describe('The embedding model.'),
}
const mcpInput = input(
  'MCPServiceConfigInput',
  z
    .strictObject({
      ...mcpFields,
      embedding_api_key: providerKey
        .optional()
        .describe(
          'The key of the provider. Required with embedding_provider on a new service. An existing service keeps its key where none is given.',
        ),
      init_tokens: z
        .string()
        .min(1)
        .max(4096)
        .optional()
        .describe('The bearer token that clients send. Omitted: the server makes one.'),
      init_users: z
        .string()
        .min(1)
        .max(4096)
        .optional()
        .describe('Users, as username:password pairs with commas between them.'),
    })
    .describe('What an `mcp` service is to be set to.')
    .superRefine((config, context) => {
      if (config.embedding_provider !== undefined && config.embedding_model === undefined) {
        context.addIssue({
          code: 'custom',
          path: ['embedding_model'],
          message: 'is required where embedding_provider is set',
        })
      }
    }),
)

const restFields = {
  db_schemas: rest.dbSchemas.describe('The schemas to serve, with commas between them.'),
  db_anon_role: rest.dbAnonRole.describe('The role of requests without a token.'),
  db_pool: rest.dbPool.describe('The most connections to the database.'),
  max_rows: rest.maxRows.describe('The most rows in one answer.'),
  jwt_audience: rest.jwtAudience.describe('The audience that a token must be for.'),
  jwt_role_claim_key: rest.jwtRoleClaimKey.describe('The path to the claim that names the role.'),
  cors_origins: rest.corsOrigins.describe('The origins that browsers may ask from, with commas between them.'),
}
const restInput = input(
  'RestServiceConfigInput',
  z
    .strictObject({
      ...restFields,
      jwt_secret: z
        .string()
        .min(32)
        .max(4096)
        .optional()
        .meta({ writeOnly: true })
        .describe('The secret that tokens are verified with, at least 32 characters. It is never returned.'),
    })
    .describe('What a `rest` service is to be set to.'),
)

const llmFields = {
  provider: llmConfig.shape.provider.describe('Whose model it is.'),
  model: llmConfig.shape.model.describe('The name of the model.'),
}
const llmInput = input(
  'RAGLLMConfigInput',
  z
    .strictObject({
      ...llmFields,
      api_key: providerKey
        .optional()
        .meta({ writeOnly: true })
        .describe('The key of the provider. It is never returned.'),
    })
    .describe('A model of a provider.'),
)
const llmShape = output('RAGLLMConfig', z.strictObject(llmFields).describe('A model of a provider.'))

const tableDescription = 'A table with texts and their embeddings.'
const tableFields = {
  table: table.table.describe('The table to search.'),
  text_column: table.textColumn.describe('The column with the text.'),
  vector_column: table.vectorColumn.describe("The column with the text's embedding."),
  id_column: table.idColumn.describe('The column that names a row.'),
  filter: table.filter.describe('An SQL condition that every row found must meet.'),
}

/** A pipeline or a service's RAG configuration, whose models come in with a key and go out without one. */
const ragFields = <L extends z.ZodType, T extends z.ZodType>(llm: L, tableConfig: T) => {
  const pipelineConfig = z
    .strictObject({
      name: pipeline.name.describe('The name of the pipeline. It is part of request paths.'),
      tables: z.array(tableConfig).min(1).max(50).describe('The tables to search.'),
      description: pipeline.description.describe('What the pipeline is for.'),
      embedding_llm: llm.optional().describe("The model for embeddings. Omitted: the service's."),
      completion_llm: llm.optional().describe("The model for answers. Omitted: the service's."),
      hybrid_enabled: pipeline.hybridEnabled.describe('`true` searches by full text as well as by embedding.'),
      min_similarity: pipeline.minSimilarity.describe('The least similarity of a result. 0 takes all.'),
      system_prompt: pipeline.systemPrompt.describe('The system prompt. Omitted: a built-in one.'),
      token_budget: pipeline.tokenBudget.describe("The most tokens of an answer. Omitted: the service's."),
      top_n: pipeline.topN.describe("The most results to use. Omitted: the service's."),
      vector_weight: pipeline.vectorWeight.describe('How much the embedding counts against the full text.'),
    })
    .describe('What one pipeline searches, and how it answers.')
  return {
    pipelineConfig,
    ragConfig: z
      .strictObject({
        embedding_llm: llm.describe('The model for embeddings, where a pipeline names none.'),
        completion_llm: llm.describe('The model for answers, where a pipeline names none.'),
        pipelines: z
          .array(pipelineConfig)
          .min(1)
          .max(50)
          .superRefine((pipelines, context) => {
            const seen = new Set<string>()
            for (const [index, { name }] of pipelines.entries()) {
              if (seen.has(name))
                context.addIssue({ code: 'custom', path: [index, 'name'], message: 'names another pipeline already' })
              seen.add(name)
            }
          })
          .describe('The pipelines.'),
        cors: z
          .strictObject({
            enabled: z.boolean().describe('`true` answers requests of other origins.'),
            allowed_origins: z.array(z.string().max(300)).max(50).optional().describe('The origins that may ask.'),
          })
          .optional()
          .describe('Requests of other origins. Off by default.'),
        token_budget: rag.tokenBudget.describe('The most tokens of an answer.'),
        top_n: rag.topN.describe('The most results to use.'),
      })
      .describe('What a `rag` service is set to.'),
  }
}
const ragIn = ragFields(
  llmInput,
  input('RAGEmbeddingTableInput', z.strictObject(tableFields).describe(tableDescription)),
)
const ragOut = ragFields(llmShape, output('RAGEmbeddingTable', z.strictObject(tableFields).describe(tableDescription)))
input('RAGPipelineConfigInput', ragIn.pipelineConfig)
input('RAGServiceConfigInput', ragIn.ragConfig)
output('RAGPipelineConfig', ragOut.pipelineConfig)

const readOnly = ignored('Set by the server. Ignored on input.')

const hostIdsDescription = 'The hosts to run on. Omitted: all hosts of the database.'
const targetNodesDescription =
  'The nodes that an `mcp` service connects to, tried in this order. Omitted: all nodes, the nearest first.'

const serviceInputFields = z.strictObject({
  service_type: z.enum(serviceTypes).describe('The kind of service.'),
  service_id: serviceConfig.shape.serviceId
    .optional()
    .describe('Assigned by the server. Leave it out for a new service; give it to keep an existing one.'),
  host_ids: serviceConfig.shape.hostIds.describe(hostIdsDescription),
  target_nodes: serviceConfig.shape.targetNodes.describe(targetNodesDescription),
  ip_allowlist: allowlistInput
    .optional()
    .describe(
      "Who may reach the service's endpoint. Omitted: a new service is closed, an existing one keeps its rules.",
    ),
  mcp_config: mcpInput.optional(),
  rest_config: restInput.optional(),
  rag_config: ragIn.ragConfig.optional(),
  port: readOnly,
  public_domain: readOnly,
  uri: readOnly,
  state: readOnly,
})

/** Which configuration a service type may carry, and must where there is nothing to fall back on. */
const configurations = [
  { type: 'mcp', field: 'mcp_config', required: false },
  { type: 'rest', field: 'rest_config', required: true },
  { type: 'rag', field: 'rag_config', required: true },
] as const

const serviceInput = input(
  'ServiceConfigInput',
  serviceInputFields.describe('A service to run beside a database.').superRefine((service, context) => {
    const fault = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message })
    for (const { type, field, required } of configurations) {
      const present = service[field] !== undefined
      if (service.service_type !== type && present) fault([field], `stands only on a service of type ${type}`)
      if (service.service_type === type && required && !present)
        fault([field], `is required for a service of type ${type}`)
    }
    const isNew = service.service_id === undefined
    if (isNew && service.mcp_config?.embedding_provider && service.mcp_config.embedding_api_key === undefined) {
      fault(['mcp_config', 'embedding_api_key'], 'is required where embedding_provider is set on a new service')
    }
  }),
)

/** At most one service of each type: they share the database's domain and are told apart by path. */
export const serviceInputs = z
  .array(serviceInput)
  .max(serviceTypes.length)
  .superRefine((services, context) => {
    const seen = new Set<string>()
    for (const [index, { service_type: type }] of services.entries()) {
      if (seen.has(type))
        context.addIssue({
          code: 'custom',
          path: [index, 'service_type'],
          message: 'there is another service of this type',
        })
      seen.add(type)
    }
  })

/** On a create: the server assigns the id. */
export const newServiceInputs = serviceInputs.superRefine((services, context) => {
  for (const [index, { service_id: serviceId }] of services.entries()) {
    if (serviceId !== undefined)
      context.addIssue({
        code: 'custom',
        path: [index, 'service_id'],
        message: 'is assigned by the server: leave it out',
      })
  }
})

export const serviceShape = output(
  'ServiceConfig',
  z
    .strictObject({
      service_type: z.enum(serviceTypes).describe('The kind of service.'),
      service_id: z.string().optional().describe('The id of the service, 8 hexadecimal characters.'),
      host_ids: z.array(z.string()).optional().describe(hostIdsDescription),
      target_nodes: z.array(z.string()).optional().describe(targetNodesDescription),
      ip_allowlist: allowlistShape.optional().describe("Who may reach the service's endpoint."),
      mcp_config: output(
        'MCPServiceConfig',
        z
          .strictObject({
            ...mcpFields,
            embedding_api_key: z.string().optional().describe('The key of the provider.'),
            init_tokens: z.string().optional().describe('The bearer token that clients send.'),
            init_users: z.string().optional().describe('Users, as username:password pairs with commas between them.'),
          })
          .describe('What an `mcp` service is set to.'),
      ).optional(),
      rest_config: output(
        'RestServiceConfig',
        z.strictObject(restFields).describe('What a `rest` service is set to.'),
      ).optional(),
      rag_config: output('RAGServiceConfig', ragOut.ragConfig).optional(),
      port: z.int().optional().describe('The port of the service.'),
      public_domain: z.string().nullable().optional().describe('The host name of the service; null until it has one.'),
      uri: z.string().nullable().optional().describe('The base URL of the service. Absent until it has a host name.'),
      state: z
        .enum(['pending', 'running', 'failed'])
        .optional()
        .describe(
          '`pending`: a change is being applied. `running`: it serves with the current configuration. `failed`: it did not come up.',
        ),
    })
    .describe('A service that runs beside a database.'),
)
export type ServiceShape = z.output<typeof serviceShape>
