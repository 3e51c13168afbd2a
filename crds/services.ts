/**
 * The services of a database: their configuration and their status. A service's secrets (API keys, tokens, a JWT
 * secret) are in the Secret that `secret` names, never here.
 */
import { z } from 'zod'
import { ipAllowlist, type PgVersion, secretReference } from './fields.ts'

export const serviceTypes = ['mcp', 'rag', 'rest'] as const
export type ServiceType = (typeof serviceTypes)[number]
/** The port that each service's server listens on. Clients use the port of the region's HTTPS listener. */
export const servicePorts = { mcp: 8080, rag: 8081, rest: 3000 } as const satisfies Record<ServiceType, number>

/** The providers of embeddings for `mcp`, and of models for `rag`. */
const embeddingProviders = ['voyage', 'openai'] as const
const llmProviders = ['openai', 'anthropic'] as const

export const mcpServiceConfig = z
  .strictObject({
    allowWrites: z
      .boolean()
      .default(false)
      .describe('`true` allows tools to write. Otherwise every query is read-only.'),
    embeddingProvider: z
      .enum(embeddingProviders)
      .optional()
      .describe('The provider of embeddings. Omitted: no semantic search.'),
    embeddingModel: z.string().min(1).max(200).optional().describe('The embedding model of that provider.'),
  })
  .meta({
    'x-kubernetes-validations': [
      {
        rule: '!has(self.embeddingProvider) || has(self.embeddingModel)',
        message: 'embeddingModel is required if embeddingProvider is set',
      },
    ],
  })

/** Roles that requests without a token never get: the roles of Postgres and of Espalier. */
export const reservedRoles = [
  'admin',
  'app',
  'app_read_only',
  'authenticator',
  'espalier',
  'postgres',
  'public',
  'none',
] as const

export const restServiceConfig = z
  .strictObject({
    dbSchemas: z.string().min(1).max(1000).describe('The schemas to serve, separated by commas.'),
    dbAnonRole: z.string().min(1).max(63).describe('The role for requests without a token.'),
    dbPool: z.int().min(1).max(30).default(10).describe('The highest number of connections to Postgres.'),
    maxRows: z.int().min(1).max(10000).default(1000).describe('The highest number of rows in one response.'),
    jwtAudience: z.string().max(1000).optional().describe('The required audience of tokens.'),
    jwtRoleClaimKey: z.string().max(1000).optional().describe('The path to the role in a token.'),
    corsOrigins: z
      .string()
      .max(4000)
      .optional()
      .describe('The origins that may send cross-origin requests, separated by commas.'),
  })
  .meta({
    'x-kubernetes-validations': [
      {
        rule: `!self.dbAnonRole.startsWith('pg_') && !self.dbAnonRole.startsWith('espalier_') && !(self.dbAnonRole in ${JSON.stringify(reservedRoles)})`,
        message: `dbAnonRole must be a role of your own: it must not be pg_*, espalier_* or one of ${reservedRoles.join(', ')}`,
      },
    ],
  })

export const llmConfig = z.strictObject({
  provider: z.enum(llmProviders).describe('The provider of the model.'),
  model: z.string().min(1).max(200).describe('The name of the model.'),
})

export const embeddingTable = z.strictObject({
  table: z.string().min(1).max(200).describe('The name of the table, with its schema if needed.'),
  textColumn: z.string().min(1).max(63).describe('The column with the text.'),
  vectorColumn: z.string().min(1).max(63).describe('The column with the embedding.'),
  idColumn: z.string().min(1).max(63).default('id').describe('The column that identifies a row.'),
  filter: z.string().max(4000).optional().describe('An SQL condition that rows must meet.'),
})

export const ragPipeline = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/, 'must contain only letters, digits, dashes and underscores, at most 63')
    .describe('The name of the pipeline; it is part of the URL path.'),
  tables: z.array(embeddingTable).min(1).max(50).describe('The tables to search.'),
  description: z.string().max(1000).optional().describe('The purpose of the pipeline.'),
  embeddingLlm: llmConfig.optional().describe('The model for embeddings. Omitted: the model of the service.'),
  completionLlm: llmConfig.optional().describe('The model that answers. Omitted: the model of the service.'),
  hybridEnabled: z.boolean().default(true).describe('`true` combines full-text search with semantic search.'),
  minSimilarity: z.number().min(0).max(1).default(0).describe('The lowest similarity at which a row is used, 0 to 1.'),
  systemPrompt: z.string().max(20000).optional().describe('The system prompt for the model that answers.'),
  tokenBudget: z
    .int()
    .min(1)
    .max(1000000)
    .optional()
    .describe('The highest number of context tokens. Omitted: the limit of the service.'),
  topN: z
    .int()
    .min(1)
    .max(1000)
    .optional()
    .describe('The highest number of context rows. Omitted: the limit of the service.'),
  vectorWeight: z
    .number()
    .min(0)
    .max(1)
    .default(0.5)
    .describe('The weight of semantic search against full-text search, 0 to 1.'),
})

export const ragServiceConfig = z
  .strictObject({
    embeddingLlm: llmConfig.describe('The model for embeddings.'),
    completionLlm: llmConfig.describe('The model that answers.'),
    pipelines: z
      .array(ragPipeline)
      .min(1)
      .max(50)
      .describe('The pipelines of the service. Their names must be unique.')
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] }),
    cors: z
      .strictObject({
        enabled: z.boolean().describe('`true` allows cross-origin requests from these origins.'),
        allowedOrigins: z.array(z.string().max(300)).max(50).optional().describe('The origins. Omitted: any.'),
      })
      .optional()
      .describe('Whether cross-origin requests are allowed. Omitted: they are not.'),
    tokenBudget: z.int().min(1).max(1000000).default(1000).describe('The highest number of context tokens.'),
    topN: z.int().min(1).max(1000).default(10).describe('The highest number of context rows.'),
  })
  .meta({
    'x-kubernetes-validations': [
      {
        rule: "self.embeddingLlm.provider != 'anthropic' && self.pipelines.all(pipeline, !has(pipeline.embeddingLlm) || pipeline.embeddingLlm.provider != 'anthropic')",
        message: 'embeddingLlm must not use anthropic, which has no embeddings',
      },
    ],
  })

export const serviceConfig = z
  .strictObject({
    serviceType: z.enum(serviceTypes).describe('The type of the service.'),
    serviceId: z
      .string()
      .regex(/^[0-9a-f]{8}$/, 'must be 8 hexadecimal characters')
      .describe('The id of the service, 8 hexadecimal characters.'),
    hostIds: z
      .array(z.string().max(253))
      .max(16)
      .optional()
      .describe(
        'The hosts to run the service on, as ids or nodes of status.instances: its pods are scheduled there if there is space, otherwise elsewhere. Omitted: anywhere.',
      ),
    targetNodes: z
      .array(z.string().max(253))
      .max(16)
      .optional()
      .describe(
        'The nodes that an mcp service connects to, in this order, as status.instances names them. A database has one node, so a list has no effect.',
      ),
    ipAllowlist: ipAllowlist
      .default({ rules: [] })
      .describe('Which addresses may reach the service. Without rules, none.'),
    mcp: mcpServiceConfig.optional().describe('The configuration of an mcp service.'),
    rest: restServiceConfig.optional().describe('The configuration of a rest service.'),
    rag: ragServiceConfig.optional().describe('The configuration of a rag service.'),
    secret: secretReference.optional().describe('The Secret with its keys and tokens, in the same namespace.'),
  })
  .meta({
    'x-kubernetes-validations': [
      {
        rule: "self.serviceType == 'rest' ? has(self.rest) : !has(self.rest)",
        message: 'rest is required for a rest service, and only there',
      },
      {
        rule: "self.serviceType == 'rag' ? has(self.rag) : !has(self.rag)",
        message: 'rag is required for a rag service, and only there',
      },
      {
        rule: "self.serviceType != 'rag' || has(self.secret)",
        message: 'secret is required for a rag service: it contains the keys of providers',
      },
      {
        rule: '!has(self.mcp) || !has(self.mcp.embeddingProvider) || has(self.secret)',
        message: 'secret is required where mcp.embeddingProvider is set: it holds the key of the provider',
      },
      { rule: "self.serviceType == 'mcp' || !has(self.mcp)", message: 'mcp is allowed only for an mcp service' },
    ],
  })
export type ServiceConfig = z.output<typeof serviceConfig>

/**
 * Why a version of Postgres cannot have `rag`. API and operator report it in the same words. `versions`: the versions
 * that have pgvector.
 */
export const missingPgvector = (version: PgVersion, versions: readonly PgVersion[]): string =>
  `rag needs pgvector, which Postgres ${version} does not have here; versions that have it: ${versions.join(', ') || 'none'}; "make pgvector" adds it`

/** At most one service of each type: services share the database's domain, and the path selects the service. */
export const serviceConfigs = z
  .array(serviceConfig)
  .max(3)
  .meta({
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['serviceType'],
  })

export const serviceStatuses = z
  .array(
    z.strictObject({
      serviceType: z.enum(serviceTypes).describe('The type of the service.'),
      serviceId: z.string().max(8).describe('The id of the service.'),
      state: z.enum(['pending', 'running', 'failed']).describe('The state of the service.'),
      port: z.int().min(1).max(65535).optional().describe('The port of the service.'),
      uri: z.string().max(300).optional().describe('The URL of the service.'),
      message: z
        .string()
        .max(1000)
        .optional()
        .describe('Why the service failed, or which objects named in its configuration the database does not have.'),
    }),
  )
  .max(3)
  .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['serviceType'] })
export type ServiceStatus = z.output<typeof serviceStatuses>[number]
