/** Every key of the retrieval server's file. docs/rag.md documents each. */
import { z } from 'zod'
import { key, List, optional } from '../../configuration/declaration.ts'
import { ruleOf } from '../../configuration/rule.ts'
import * as values from '../../configuration/values.ts'
import { isHeaderName, isHeaderValue } from '../../http/headers.ts'
import { type Filter, filter } from '../request/filter.ts'

const mostPipelines = 100
const mostTables = 100

const embeddingProviders = ['openai', 'voyage', 'gemini', 'ollama'] as const
const completionProviders = ['openai', 'anthropic', 'gemini', 'ollama'] as const

const headers = () => ({
  type: 'string' as const,
  rule: 'must be a table of at most 50 HTTP headers, each a name and a text without line breaks',
  schema: z.record(z.string().refine(isHeaderName), z.string().max(8_192).refine(isHeaderValue)).refine(table => {
    return Object.keys(table).length <= 50
  }),
})

const column = () => values.name()
const tableName = () =>
  values.text('must be the name of a table, as table or schema.table, each part of at most 63 bytes', text => {
    const parts = text.split('.')
    return (
      parts.length <= 2 && parts.every(part => part !== '' && Buffer.byteLength(part) <= 63 && !/\p{Cc}/u.test(part))
    )
  })
const pipelineName = () =>
  values.text(
    'must be 1 to 63 letters, digits and . _ -',
    text => /^[A-Za-z0-9._-]{1,63}$/.test(text) && !/^\.+$/.test(text),
  )

const host = z.union([
  z.string().regex(/^[^\s,]{1,255}$/),
  z.strictObject({
    host: z.string().regex(/^[^\s,]{1,255}$/),
    port: z.int().min(1).max(65_535).optional(),
  }),
])
export type ReadHost = z.output<typeof host>

const hosts = () => ({
  type: 'list' as const,
  rule: 'must be 1 to 20 hosts, each as "host", "host:port" or a table of host and port',
  schema: z.array(host).min(1).max(20),
})

const sql = z
  .string('must be the condition of a WHERE clause as text, or a structured filter')
  .trim()
  .min(1)
  .max(10_000)

/** SQL text, or a structured filter as in requests. */
const tableFilter = () => ({
  type: 'string' as const,
  schema: z.unknown().transform((value, context): string | Filter => {
    const isTable = typeof value === 'object' && value !== null && !Array.isArray(value)
    const parsed = (isTable ? filter : sql).safeParse(value, { error: ruleOf })
    if (parsed.success) return parsed.data
    for (const { path, message } of parsed.error.issues) context.addIssue({ code: 'custom', path, message })
    return z.NEVER
  }),
})

/** Paths of key files. Each file contains one key. */
const keyFiles = () => ({
  openai: optional(values.path()),
  anthropic: optional(values.path()),
  gemini: optional(values.path()),
  voyage: optional(values.path()),
})

const timeout = () => values.duration(100, 3_600_000)
const endpoint = () => ({
  model: optional(values.words()),
  api_key: optional(values.secret(), { file: '_file', isSecret: true }),
  base_url: optional(values.httpUri()),
  headers: optional(headers()),
})
/** Keys of a pipeline. Missing keys are taken from the defaults. */
const inherited = () => ({
  ...endpoint(),
  request_timeout: optional(timeout()),
  per_attempt_timeout: optional(timeout()),
})
const timeouts = (perAttempt: string) => ({
  request_timeout: key(timeout(), '120s'),
  per_attempt_timeout: key(timeout(), perAttempt),
})
const embeddingProvider = () => optional(values.choice(...embeddingProviders))
const completionProvider = () => optional(values.choice(...completionProviders))

const budget = () => values.integer(1, 1_000_000)
/** The minimum is enough for a document with its delimiters, and a part of the conversation. */
const contextTokens = () => values.integer(256, 1_000_000)
const topN = () => values.integer(1, 1_000)

export const database = {
  url: optional(values.connection(), { file: '_file', isSecret: true }),
  host: optional(values.words()),
  port: key(values.integer(1, 65_535), 5_432),
  hosts: optional(hosts()),
  target_session_attrs: optional(
    values.choice('any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'),
  ),
  database: key(values.words(), 'postgres'),
  username: key(values.words(), 'postgres'),
  password: optional(values.secret(), { file: '_file', isSecret: true, fallbacks: ['PGPASSWORD'] }),
  ssl_mode: key(values.choice('disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'), 'prefer'),
  ssl_cert: optional(values.path()),
  ssl_key: optional(values.path()),
  ssl_root_ca: optional(values.path()),
  connect_timeout: key(values.duration(1_000, 600_000), '10s'),
  pool_max_conns: key(values.integer(1, 1_000), 10),
}

export const table = {
  table: optional(tableName()),
  text_column: optional(column()),
  vector_column: optional(column()),
  id_column: key(column(), 'id'),
  filter: optional(tableFilter(), { needsValue: true }),
}

export const pipeline = {
  name: optional(pipelineName()),
  description: key(
    values.text('must have at most 1000 characters', text => text.length <= 1_000),
    '',
  ),
  database,
  tables: new List(() => table, mostTables),
  api_keys: keyFiles(),
  embedding_llm: { provider: embeddingProvider(), ...inherited() },
  rag_llm: { provider: completionProvider(), ...inherited() },
  llm_headers: optional(headers()),
  allow_include_sources: key(values.truth(), true),
  token_budget: optional(budget()),
  context_tokens: optional(contextTokens()),
  top_n: optional(topN()),
  system_prompt: optional(values.text('must have 1 to 20000 characters', text => text !== '' && text.length <= 20_000)),
  search: {
    hybrid_enabled: key(values.truth(), true),
    vector_weight: key(values.decimal(0, 1), 0.5),
    min_similarity: key(values.decimal(0, 1), 0),
    exact_timeout: key(values.duration(100, 30_000), '5s'),
  },
  rerank: {
    provider: optional(values.choice('voyage')),
    ...endpoint(),
    ...timeouts('10s'),
    candidates: key(values.integer(1, 1_000), 50),
    top_k: optional(topN()),
  },
  max_concurrent_requests: key(values.integer(1, 10_000), 256),
}

export const keys = {
  server: {
    listen_address: key(values.listenHost(), '127.0.0.1'),
    port: key(values.integer(0, 65_535), 8_080),
    allowed_hosts: key(
      values.entries('must be names of hosts without a port', entry => /^[A-Za-z0-9._-]{1,253}$/.test(entry)),
      '',
    ),
    request_timeout: key(values.duration(100, 3_600_000), '50s'),
    stream_timeout: key(values.duration(100, 86_400_000), '10m'),
    tls: {
      enabled: optional(values.truth()),
      cert_file: optional(values.path()),
      key_file: optional(values.path()),
    },
    cors: {
      enabled: key(values.truth(), false),
      allowed_origins: key(
        values.entries(
          'must be origins like https://example.com, or *',
          entry => entry === '*' || /^https?:\/\/[^/\s]+$/.test(entry),
        ),
        '',
      ),
    },
  },
  api_keys: keyFiles(),
  defaults: {
    token_budget: key(budget(), 1_000),
    context_tokens: key(contextTokens(), 4_000),
    top_n: key(topN(), 10),
    embedding_llm: { provider: embeddingProvider(), ...endpoint(), ...timeouts('30s') },
    rag_llm: { provider: completionProvider(), ...endpoint(), ...timeouts('120s') },
    api_keys: keyFiles(),
    llm_headers: optional(headers()),
  },
  pipelines: new List(() => pipeline, mostPipelines),
  log_level: key(values.choice('debug', 'info', 'warn', 'error', 'silent'), 'info'),
}
