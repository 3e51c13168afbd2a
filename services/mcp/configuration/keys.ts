/** Every key of the tool server except those of databases. docs/mcp.md documents each. */
import { key, Open, optional } from '../../configuration/declaration.ts'
import * as values from '../../configuration/values.ts'
import { isBlock } from '../../http/address.ts'
import { databases } from './databases.ts'

/** `fallback`: the variable that the provider's own tools read. */
const hosted = (fallback: string) => ({
  api_key: optional(values.secret(), { file: '_file', isSecret: true, fallbacks: [fallback] }),
  base_url: optional(values.httpUri()),
})
const ollama = { url: optional(values.httpUri()) }

const embeddingProviders = ['voyage', 'openai', 'ollama', 'gemini'] as const
export const llmProviders = ['anthropic', 'openai', 'gemini', 'ollama'] as const

const embedder = {
  provider: optional(values.choice(...embeddingProviders)),
  model: optional(values.words()),
  per_attempt_timeout: key(values.duration(100, 600_000), '30s'),
  voyage_: hosted('VOYAGE_API_KEY'),
  openai_: hosted('OPENAI_API_KEY'),
  gemini_: hosted('GEMINI_API_KEY'),
  ollama_: ollama,
}

/** A hyphen in a name is an underscore in its variable. */
const switches = (variable: string, separator: string) =>
  new Open(values.truth(), {
    form: /^[a-z][a-z0-9_-]{0,99}$/,
    variable,
    fromVariable: text => text.toLowerCase().replaceAll('_', separator),
    most: 1_000,
  })

const inFile = { file: '_file', isSecret: true } as const

export const keys = {
  http: {
    enabled: key(values.truth(), false, { flag: 'http' }),
    address: optional(values.listenAddress(), { flag: 'addr' }),
    tls: {
      enabled: key(values.truth(), false, { flag: 'tls', needsValue: true }),
      cert_file: optional(values.path(), { flag: 'cert' }),
      key_file: optional(values.path(), { flag: 'key' }),
      chain_file: optional(values.path(), { flag: 'chain' }),
    },
    auth: {
      enabled: key(values.truth(), true),
      token_file: key(values.path(), '/etc/espalier/mcp-tokens.yaml', { flag: 'token-file' }),
      user_file: key(values.path(), '/etc/espalier/mcp-users.yaml', { flag: 'user-file' }),
      max_failed_attempts_before_lockout: key(values.integer(0, 10_000), 0),
      rate_limit_window_minutes: key(values.integer(1, 10_080), 15),
      rate_limit_max_attempts: key(values.integer(1, 10_000), 10),
    },
    allowed_origins: key(
      values.entries('must be origins like https://example.com, at most 1000', entry =>
        /^https?:\/\/[\x21-\x2e\x30-\x7e]+$/.test(entry),
      ),
      '',
    ),
    client_ip: { trusted_proxies: key(values.blocks(isBlock), '') },
    peer: { address: optional(values.reachableAddress()), secret: optional(values.longSecret(), inFile) },
  },
  'no-auth': key(values.truth(), false, { flag: 'no-auth', isFlagOnly: true }),
  databases,
  embedding: { enabled: optional(values.truth()), ...embedder },
  llm: {
    enabled: optional(values.truth()),
    provider: optional(values.choice(...llmProviders)),
    model: optional(values.words()),
    max_tokens: key(values.integer(1, 1_000_000), 4_096),
    temperature: optional(values.decimal(0, 2)),
    timeout: key(values.duration(100, 3_600_000), '2m'),
    anthropic_: hosted('ANTHROPIC_API_KEY'),
    openai_: hosted('OPENAI_API_KEY'),
    gemini_: hosted('GEMINI_API_KEY'),
    ollama_: ollama,
  },
  knowledgebase: {
    enabled: optional(values.truth()),
    database_path: optional(values.path()),
    embedding_: embedder,
  },
  builtins: {
    tools: switches('BUILTIN_TOOL_', '_'),
    resources: switches('BUILTIN_RESOURCE_', '_'),
    prompts: switches('BUILTIN_PROMPT_', '-'),
  },
  custom_definitions_path: optional(values.path()),
  data_dir: key(values.path(), '/var/lib/espalier/mcp'),
  state: {
    url: optional(values.connection(), { isSecret: true }),
    password: optional(values.passwords(), inFile),
    sslrootcert: optional(values.path()),
  },
  secret: optional(values.longSecret(), inFile),
  limits: {
    result_tokens: optional(values.integer(200, 1_000_000)),
    query_tokens: optional(values.integer(200, 1_000_000)),
    result_bytes: key(values.integer(10_000, 1_073_741_824), 8_388_608),
    request_bytes: key(values.integer(1_000, 1_073_741_824), 10_485_760),
  },
  audit: { statements: key(values.choice('none', 'reads', 'all'), 'reads') },
  log_level: key(values.choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), 'info', {
    variables: ['LOG'],
  }),
  debug: key(values.truth(), false, { flag: 'debug', isFlagOnly: true }),
}
