/**
 * ServiceConfig as the API takes and gives it: the fields of `crds/services.ts` in snake case
 * with the same limits, plus the secrets, which resources never hold.
 */
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
import { input, output } from '../schemas/components.ts'

const mcp = mcpServiceConfig.shape
const rest = restServiceConfig.shape
const rag = ragServiceConfig.shape
const pipeline = ragPipeline.shape
const table = embeddingTable.shape

const providerKey = z.string().min(1).max(4096)

const mcpFields = {
  allow_writes: mcp.allowWrites.describe('true: the query tool may write; for development and test databases only'),
  embedding_provider: mcp.embeddingProvider.describe('turns on the generate_embedding tool; needs embedding_model'),
  embedding_model: mcp.embeddingModel,
}
const mcpInput = input(
  'MCPServiceConfigInput',
  z
    .strictObject({
      ...mcpFields,
      embedding_api_key: providerKey.optional().describe('needed with embedding_provider on a new service'),
      init_tokens: z.string().min(1).max(4096).optional().describe('bearer token; made by the server when omitted'),
      init_users: z.string().min(1).max(4096).optional().describe('comma-separated username:password pairs'),
    })
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
  db_schemas: rest.dbSchemas.describe('comma-separated schemas to expose'),
  db_anon_role: rest.dbAnonRole.describe('role of requests without a token'),
  db_pool: rest.dbPool,
  max_rows: rest.maxRows,
  jwt_audience: rest.jwtAudience,
  jwt_role_claim_key: rest.jwtRoleClaimKey.describe('JSONPath to the role claim'),
  cors_origins: rest.corsOrigins.describe('comma-separated allowed origins'),
}
const restInput = input(
  'RestServiceConfigInput',
  z.strictObject({
    ...restFields,
    jwt_secret: z.string().min(32).max(4096).optional().meta({ writeOnly: true }).describe('at least 32 characters'),
  }),
)

const llmFields = { provider: llmConfig.shape.provider, model: llmConfig.shape.model }
const llmInput = input(
  'RAGLLMConfigInput',
  z.strictObject({ ...llmFields, api_key: providerKey.optional().meta({ writeOnly: true }) }),
)
const llmShape = output('RAGLLMConfig', z.strictObject(llmFields))

const tableFields = {
  table: table.table,
  text_column: table.textColumn,
  vector_column: table.vectorColumn,
  id_column: table.idColumn,
  filter: table.filter.describe('SQL WHERE clause that scopes searches'),
}

/** A pipeline or a service's RAG configuration, whose models come in with a key and go out without one. */
const ragFields = <L extends z.ZodType, T extends z.ZodType>(llm: L, tableConfig: T) => {
  const pipelineConfig = z.strictObject({
    name: pipeline.name.describe('stands in request paths'),
    tables: z.array(tableConfig).min(1).max(50),
    description: pipeline.description,
    embedding_llm: llm.optional(),
    completion_llm: llm.optional(),
    hybrid_enabled: pipeline.hybridEnabled,
    min_similarity: pipeline.minSimilarity,
    system_prompt: pipeline.systemPrompt,
    token_budget: pipeline.tokenBudget,
    top_n: pipeline.topN,
    vector_weight: pipeline.vectorWeight,
  })
  return {
    pipelineConfig,
    ragConfig: z.strictObject({
      embedding_llm: llm.describe('default for all pipelines'),
      completion_llm: llm.describe('default for all pipelines'),
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
        }),
      cors: z
        .strictObject({
          enabled: z.boolean(),
          allowed_origins: z.array(z.string().max(300)).max(50).optional(),
        })
        .optional()
        .describe('off by default'),
      token_budget: rag.tokenBudget,
      top_n: rag.topN,
    }),
  }
}
const ragIn = ragFields(llmInput, input('RAGEmbeddingTableInput', z.strictObject(tableFields)))
const ragOut = ragFields(llmShape, output('RAGEmbeddingTable', z.strictObject(tableFields)))
input('RAGPipelineConfigInput', ragIn.pipelineConfig)
input('RAGServiceConfigInput', ragIn.ragConfig)
output('RAGPipelineConfig', ragOut.pipelineConfig)

const readOnly = z.unknown().optional().meta({ readOnly: true, description: 'set by the server; ignored on input' })

const serviceInputFields = z.strictObject({
  service_type: z.enum(serviceTypes),
  service_id: serviceConfig.shape.serviceId
    .optional()
    .describe('assigned by the server: omitted on a new service, given to keep an existing one'),
  host_ids: serviceConfig.shape.hostIds,
  target_nodes: serviceConfig.shape.targetNodes,
  ip_allowlist: allowlistInput
    .optional()
    .describe('omitted: a new service starts closed, an existing one keeps its rules'),
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
  serviceInputFields.superRefine((service, context) => {
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
  z.strictObject({
    service_type: z.enum(serviceTypes),
    service_id: z.string().optional().describe('8 hexadecimal characters'),
    host_ids: z.array(z.string()).optional(),
    target_nodes: z.array(z.string()).optional(),
    ip_allowlist: allowlistShape.optional(),
    mcp_config: output(
      'MCPServiceConfig',
      z.strictObject({
        ...mcpFields,
        embedding_api_key: z.string().optional(),
        init_tokens: z.string().optional(),
        init_users: z.string().optional(),
      }),
    ).optional(),
    rest_config: output('RestServiceConfig', z.strictObject(restFields)).optional(),
    rag_config: output('RAGServiceConfig', ragOut.ragConfig).optional(),
    port: z.int().optional(),
    public_domain: z.string().nullable().optional(),
    uri: z.string().nullable().optional(),
    state: z.enum(['pending', 'running', 'failed']).optional(),
  }),
)
export type ServiceShape = z.output<typeof serviceShape>
