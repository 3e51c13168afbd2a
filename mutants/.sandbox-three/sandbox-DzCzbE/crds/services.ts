/**
 * The services a database can run beside it: what is asked of each, and what is reported back. Secrets of a service (API
 * keys, tokens, a JWT secret) stand in the Secret that `secret` names, never here.
 */
// @ts-nocheck

import { z } from 'zod'
import { ipAllowlist, secretReference } from './fields.ts'

export const serviceTypes = ['mcp', 'rag', 'rest'] as const
/** Whose embeddings `mcp` can use, and whose models `rag` can. */
const embeddingProviders = ['voyage', 'openai'] as const
const llmProviders = ['openai', 'anthropic'] as const

export const mcpServiceConfig = z.strictObject({
  allowWrites: z.boolean().default(false),
  embeddingProvider: z.enum(embeddingProviders).optional(),
  embeddingModel: z.string().min(1).max(200).optional(),
})

export const restServiceConfig = z.strictObject({
  dbSchemas: z.string().min(1).max(1000),
  dbAnonRole: z.string().min(1).max(63),
  dbPool: z.int().min(1).max(30).default(10),
  maxRows: z.int().min(1).max(10000).default(1000),
  jwtAudience: z.string().max(1000).optional(),
  jwtRoleClaimKey: z.string().max(1000).optional(),
  corsOrigins: z.string().max(4000).optional(),
})

export const llmConfig = z.strictObject({ provider: z.enum(llmProviders), model: z.string().min(1).max(200) })

export const embeddingTable = z.strictObject({
  table: z.string().min(1).max(200),
  textColumn: z.string().min(1).max(63),
  vectorColumn: z.string().min(1).max(63),
  idColumn: z.string().min(1).max(63).default('id'),
  filter: z.string().max(4000).optional(),
})

export const ragPipeline = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/, 'must hold at most 63 letters, digits, dashes and underscores'),
  tables: z.array(embeddingTable).min(1).max(50),
  description: z.string().max(1000).optional(),
  embeddingLlm: llmConfig.optional(),
  completionLlm: llmConfig.optional(),
  hybridEnabled: z.boolean().default(true),
  minSimilarity: z.number().min(0).max(1).default(0),
  systemPrompt: z.string().max(20000).optional(),
  tokenBudget: z.int().min(1).max(1000000).optional(),
  topN: z.int().min(1).max(1000).optional(),
  vectorWeight: z.number().min(0).max(1).default(0.5),
})

export const ragServiceConfig = z.strictObject({
  embeddingLlm: llmConfig,
  completionLlm: llmConfig,
  pipelines: z.array(ragPipeline).min(1).max(50),
  cors: z
    .strictObject({ enabled: z.boolean(), allowedOrigins: z.array(z.string().max(300)).max(50).optional() })
    .optional(),
  tokenBudget: z.int().min(1).max(1000000).default(1000),
  topN: z.int().min(1).max(1000).default(10),
})

export const serviceConfig = z
  .strictObject({
    serviceType: z.enum(serviceTypes),
    serviceId: z.string().regex(/^[0-9a-f]{8}$/, 'must be 8 hexadecimal characters'),
    hostIds: z.array(z.string().max(253)).max(16).optional(),
    targetNodes: z.array(z.string().max(253)).max(16).optional(),
    ipAllowlist: ipAllowlist.default({ rules: [] }),
    mcp: mcpServiceConfig.optional(),
    rest: restServiceConfig.optional(),
    rag: ragServiceConfig.optional(),
    secret: secretReference.optional(),
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
      { rule: "self.serviceType == 'mcp' || !has(self.mcp)", message: 'mcp stands only on an mcp service' },
    ],
  })
export type ServiceConfig = z.output<typeof serviceConfig>

/** At most one service of each type, as they share the database's domain and are told apart by path. */
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
      serviceType: z.enum(serviceTypes),
      serviceId: z.string().max(8),
      state: z.enum(['pending', 'running', 'failed']),
      port: z.int().min(1).max(65535).optional(),
      uri: z.string().max(300).optional(),
    }),
  )
  .max(3)
  .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['serviceType'] })
