/**
 * The configuration of each service type in requests and responses: the fields of `crds/services.ts` in snake case with
 * the same limits, plus the secrets, which resources never contain.
 */
import { z } from 'zod'
import {
  anonymousRoleRule,
  claimPathRule,
  embeddingTable,
  llmConfig,
  mcpServiceConfig,
  originRule,
  originsRule,
  ragPipeline,
  ragServiceConfig,
  restServiceConfig,
  schemasRule,
  tableRule,
} from '../../crds/index.ts'
import { both, input, output } from '../schemas/components.ts'
import { jwtSecretRule, textRule, tokensRule, usersRule } from './rules.ts'

const mcp = mcpServiceConfig.shape
const rest = restServiceConfig.shape
const rag = ragServiceConfig.shape
const pipeline = ragPipeline.shape
const table = embeddingTable.shape

const secret = z.string().min(1).max(4096)
/** A provider's key is sent in a header of one line. */
const providerKey = secret.regex(/^[\x21-\x7e]+$/, 'must contain printable ASCII characters only, without spaces')
/** Null removes an optional key or field, as elsewhere in a PATCH. */
const removable = <S extends z.ZodType>(schema: S) => schema.nullable().optional()
const keepsKey = 'Omitted: an existing service keeps its key. Null removes it.'
const usersDescription = 'Users, as username:password pairs separated by commas.'

const embeddingProvider = input(
  'EmbeddingProvider',
  mcp.embeddingProvider.unwrap().describe('A provider of embeddings.'),
)
const mcpFields = {
  allow_writes: mcp.allowWrites.describe(
    '`true` allows the query tool to write. For development and test databases only.',
  ),
}
const embeddingDescriptions = {
  provider: 'The provider of embeddings. Enables the generate_embedding tool, and requires embedding_model.',
  model: 'The embedding model. Required if embedding_provider is set.',
}

export const mcpInput = input(
  'MCPServiceConfigInput',
  z
    .strictObject({
      ...mcpFields,
      embedding_provider: removable(embeddingProvider).describe(embeddingDescriptions.provider),
      embedding_model: removable(mcp.embeddingModel.unwrap()).describe(embeddingDescriptions.model),
      embedding_api_key: removable(providerKey).describe(
        'The key of the provider. Required with embedding_provider on a new service. Omitted: an existing service keeps its key. Null removes it.',
      ),
      init_tokens: removable(secret.superRefine(textRule(tokensRule))).describe(
        'The bearer tokens that clients may send, separated by commas. Omitted: an existing service keeps its tokens, and a new one gets a generated token. Null: a generated token replaces them.',
      ),
      init_users: removable(secret.superRefine(textRule(usersRule))).describe(
        `${usersDescription} Omitted: an existing service keeps its users. Null removes them.`,
      ),
    })
    .meta({
      description: 'The configuration of an `mcp` service.',
      dependentRequired: { embedding_provider: ['embedding_model'] },
      example: { allow_writes: false },
    })
    .superRefine((config, context) => {
      if (typeof config.embedding_provider === 'string' && typeof config.embedding_model !== 'string') {
        context.addIssue({
          code: 'custom',
          path: ['embedding_model'],
          message: 'is required if embedding_provider is set',
        })
      }
    }),
)
export const mcpShape = output(
  'MCPServiceConfig',
  z
    .strictObject({
      ...mcpFields,
      embedding_provider: embeddingProvider.optional().describe(embeddingDescriptions.provider),
      embedding_model: mcp.embeddingModel.describe('The embedding model.'),
      embedding_api_key: z
        .string()
        .optional()
        .describe('The key of the provider. Returned only by a read of one object.'),
      init_tokens: z
        .string()
        .optional()
        .describe('The bearer tokens that clients may send. Returned only by a read of one object.'),
      init_users: z.string().optional().describe(`${usersDescription} Returned only by a read of one database.`),
    })
    .meta({ description: 'The configuration of an `mcp` service.', example: { allow_writes: false } }),
)

const restDescriptions = {
  schemas: 'The schemas to expose, separated by commas.',
  role: 'The role of unauthenticated requests.',
  audience: 'The audience that a token must contain.',
  claim: 'The JSON path to the role claim, for example .role or $.role.',
  origins: 'The origins whose pages may send requests, separated by commas; * for any.',
}
const restFields = {
  db_pool: rest.dbPool.describe('The maximum number of connections to the database.'),
  max_rows: rest.maxRows.describe('The maximum number of rows in one response.'),
}
const restExample = { db_schemas: 'public', db_anon_role: 'web_anonymous' }

export const restInput = input(
  'RestServiceConfigInput',
  z
    .strictObject({
      ...restFields,
      db_schemas: rest.dbSchemas.superRefine(textRule(schemasRule)).describe(restDescriptions.schemas),
      db_anon_role: rest.dbAnonRole.superRefine(textRule(anonymousRoleRule)).describe(restDescriptions.role),
      jwt_audience: removable(rest.jwtAudience.unwrap()).describe(restDescriptions.audience),
      jwt_role_claim_key: removable(rest.jwtRoleClaimKey.unwrap().superRefine(textRule(claimPathRule))).describe(
        restDescriptions.claim,
      ),
      cors_origins: removable(rest.corsOrigins.unwrap().superRefine(textRule(originsRule))).describe(
        restDescriptions.origins,
      ),
      jwt_secret: removable(z.string().min(32).max(4096).superRefine(textRule(jwtSecretRule)))
        .meta({ writeOnly: true })
        .describe(
          'The secret that verifies tokens, at least 32 characters. It is never returned. Omitted: an existing service keeps its secret. Null removes it.',
        ),
    })
    .meta({ description: 'The configuration of a `rest` service.', example: restExample }),
)
export const restShape = output(
  'RestServiceConfig',
  z
    .strictObject({
      ...restFields,
      db_schemas: rest.dbSchemas.describe(restDescriptions.schemas),
      db_anon_role: rest.dbAnonRole.describe(restDescriptions.role),
      jwt_audience: rest.jwtAudience.describe(restDescriptions.audience),
      jwt_role_claim_key: rest.jwtRoleClaimKey.describe(restDescriptions.claim),
      cors_origins: rest.corsOrigins.describe(restDescriptions.origins),
    })
    .meta({
      description: 'The configuration of a `rest` service.',
      example: { ...restExample, db_pool: 10, max_rows: 1000 },
    }),
)

const llmProvider = input('LLMProvider', llmConfig.shape.provider.describe('A provider of language models.'))
const llmFields = {
  provider: llmProvider.describe('The provider of the model.'),
  model: llmConfig.shape.model.describe('The name of the model.'),
}
const llmExample = { provider: 'openai', model: 'gpt-4o-mini' }
const embeddingExample = { provider: 'openai', model: 'text-embedding-3-small' }
const llmInput = input(
  'RAGLLMConfigInput',
  z
    .strictObject({
      ...llmFields,
      api_key: removable(providerKey)
        .meta({ writeOnly: true })
        .describe(
          "The key of the provider. It is never returned. Required on a new service; a pipeline's model of the same provider uses the service's key. " +
            keepsKey,
        ),
    })
    .meta({ description: 'A model of a provider.', example: { ...llmExample, api_key: '<LLM_API_KEY>' } }),
)
const llmShape = output(
  'RAGLLMConfig',
  z.strictObject(llmFields).meta({ description: 'A model of a provider.', example: llmExample }),
)

const tableExample = { table: 'documents', text_column: 'content', vector_column: 'embedding' }
/** A resource applied by kubectl is returned unchanged, even if it violates a rule. */
const tableConfig = (name: z.ZodString) =>
  z
    .strictObject({
      table: name.describe('The table to search, as table or schema.table.'),
      text_column: table.textColumn.describe('The column that contains the text.'),
      vector_column: table.vectorColumn.describe("The column that contains the text's embedding."),
      id_column: table.idColumn.describe('The column that identifies a row.'),
      filter: table.filter.describe('A SQL condition that every result must meet.'),
    })
    .meta({ description: 'A table with texts and their embeddings.', example: tableExample })
const tables = both(
  'RAGEmbeddingTable',
  tableConfig(table.table.superRefine(textRule(tableRule))),
  tableConfig(table.table),
)

const corsConfig = (origin: z.ZodString) =>
  z
    .strictObject({
      enabled: z.boolean().describe('`true` accepts requests from other origins.'),
      allowed_origins: z.array(origin).max(50).optional().describe('The origins whose pages may send requests.'),
    })
    .meta({
      description: 'Requests from other origins. Off by default.',
      example: { enabled: true, allowed_origins: ['https://app.example.com'] },
    })
const anyOrigin = z.string().max(300)
const cors = both('RAGCorsConfig', corsConfig(anyOrigin.superRefine(textRule(originRule))), corsConfig(anyOrigin))

const pipelineExample = {
  name: 'documents',
  tables: [tableExample],
  hybrid_enabled: true,
  min_similarity: 0,
  vector_weight: 0.5,
}
const ragExample = {
  embedding_llm: embeddingExample,
  completion_llm: llmExample,
  pipelines: [pipelineExample],
  token_budget: 1000,
  top_n: 10,
}

/** A pipeline or a service's RAG configuration. Its models have a key in requests and none in responses. */
const ragFields = <L extends z.ZodType, T extends z.ZodType, C extends z.ZodType>(llm: L, table: T, cors: C) => {
  const pipelineConfig = z
    .strictObject({
      name: pipeline.name.describe('The name of the pipeline. It is part of request paths.'),
      tables: z.array(table).min(1).max(50).describe('The tables to search.'),
      description: pipeline.description.describe('The purpose of the pipeline.'),
      embedding_llm: llm.optional().describe("The model for embeddings. Omitted: the service's."),
      completion_llm: llm.optional().describe("The model for answers. Omitted: the service's."),
      hybrid_enabled: pipeline.hybridEnabled.describe('`true` searches by full text as well as by embedding.'),
      min_similarity: pipeline.minSimilarity.describe('The minimum similarity of a result. 0 accepts all.'),
      system_prompt: pipeline.systemPrompt.describe('The system prompt. Omitted: a built-in one.'),
      token_budget: pipeline.tokenBudget.describe("The maximum number of tokens of an answer. Omitted: the service's."),
      top_n: pipeline.topN.describe("The maximum number of results to use. Omitted: the service's."),
      vector_weight: pipeline.vectorWeight.describe('The weight of the embedding relative to the full text.'),
    })
    .meta({ description: 'The tables that one pipeline searches, and its settings.', example: pipelineExample })
  const ragConfig = z
    .strictObject({
      embedding_llm: llm.describe('The default model for embeddings of pipelines.'),
      completion_llm: llm.describe('The default model for answers of pipelines.'),
      pipelines: z
        .array(pipelineConfig)
        .min(1)
        .max(50)
        .superRefine((pipelines, context) => {
          const seen = new Set<string>()
          for (const [index, { name }] of pipelines.entries()) {
            if (seen.has(name))
              context.addIssue({ code: 'custom', path: [index, 'name'], message: 'duplicate pipeline name' })
            seen.add(name)
          }
        })
        .describe('The pipelines. Names are unique.'),
      cors: cors.optional(),
      token_budget: rag.tokenBudget.describe('The maximum number of tokens of an answer.'),
      top_n: rag.topN.describe('The maximum number of results to use.'),
    })
    .meta({ description: 'The configuration of a `rag` service.', example: ragExample })
  return { pipelineConfig, ragConfig }
}
const ragIn = ragFields(llmInput, tables.taken, cors.taken)
const ragOut = ragFields(llmShape, tables.given, cors.given)
input('RAGPipelineConfigInput', ragIn.pipelineConfig)
output('RAGPipelineConfig', ragOut.pipelineConfig)
export const ragInput = input('RAGServiceConfigInput', ragIn.ragConfig)
export const ragShape = output('RAGServiceConfig', ragOut.ragConfig)
