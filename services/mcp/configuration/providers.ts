/** Other people's models: for embeddings, for chat, and for the questions asked of the knowledge base. */
import { choice, decimal, httpUri, secret, truth, whole } from '../../configuration/values.ts'
import { duration, path, words } from './kinds.ts'
import type { Elsewhere, SettingsReader } from './reader.ts'
import type { EmbeddingSettings, LlmSettings, McpSettings } from './types.ts'

const embeddingProviders = ['voyage', 'openai', 'ollama', 'gemini'] as const
const llmProviders = ['anthropic', 'openai', 'gemini', 'ollama'] as const
type Provider = EmbeddingSettings['provider'] | LlmSettings['provider']

const defaultModels: Readonly<Record<EmbeddingSettings['provider'], string>> = {
  voyage: 'voyage-3.5',
  openai: 'text-embedding-3-small',
  ollama: 'nomic-embed-text',
  gemini: 'gemini-embedding-001',
}
/** Such a key, as its provider's own tools read it, counts where nothing else is given. */
const usualVariables: Readonly<Record<Provider, string | undefined>> = {
  voyage: 'VOYAGE_API_KEY',
  openai: 'OPENAI_API_KEY',
  anthropic: 'ANTHROPIC_API_KEY',
  gemini: 'GEMINI_API_KEY',
  ollama: undefined,
}

type Reach = { readonly apiKey: string | undefined; readonly baseUrl: string | undefined }
/** Of the keys of a section, as `embedding.` and `EMBEDDING_`. */
type Section = { readonly key: string; readonly variable: string }

const elsewhere = ({ variable }: Section, name: string): Elsewhere => ({
  variables: [`${variable}${name.toUpperCase()}`],
})

/** Where a provider is and with which key it is asked. Ollama has no key, and is where its URL says. */
function readReach(reader: SettingsReader, section: Section, provider: Provider): Reach {
  const url = (name: string) => reader.take(`${section.key}${name}`, httpUri(), elsewhere(section, name))
  if (provider === 'ollama') return { apiKey: undefined, baseUrl: url('ollama_url') }
  const name = `${provider}_api_key`
  const usual = usualVariables[provider]
  const places = { ...elsewhere(section, name), ...(usual === undefined ? {} : { fallbacks: [usual] }) }
  return { apiKey: reader.secret(`${section.key}${name}`, secret(), places), baseUrl: url(`${provider}_base_url`) }
}

function readEmbedder(reader: SettingsReader, section: Section, prefix: string): EmbeddingSettings | undefined {
  const within = { key: `${section.key}${prefix}`, variable: `${section.variable}${prefix.toUpperCase()}` }
  const provider = reader.take(`${within.key}provider`, choice(...embeddingProviders), elsewhere(within, 'provider'))
  const model = reader.take(`${within.key}model`, words(), elsewhere(within, 'model'))
  const timeoutMs = reader.take(
    `${within.key}per_attempt_timeout`,
    duration(100, 600_000),
    elsewhere(within, 'per_attempt_timeout'),
  )
  // Keys of other providers may stand there for another day.
  const reaches = new Map(embeddingProviders.map(one => [one, readReach(reader, within, one)]))
  if (provider === undefined) return undefined
  const { apiKey, baseUrl } = reaches.get(provider) ?? { apiKey: undefined, baseUrl: undefined }
  return { provider, model: model ?? defaultModels[provider], apiKey, baseUrl, timeoutMs: timeoutMs ?? 30_000 }
}

/** Those that ask for a key do so at their own address; at another they may not. */
function requireReach(
  reader: SettingsReader,
  section: Section,
  { provider, apiKey, baseUrl }: EmbeddingSettings,
): void {
  if (provider !== 'ollama' && apiKey === undefined && baseUrl === undefined)
    reader.refuse(`${section.key}${provider}_api_key`, `must be given where the provider is ${provider}, or a base URL`)
}

function isEnabled(reader: SettingsReader, section: Section, otherwise: boolean): boolean {
  return reader.take(`${section.key}enabled`, truth(), elsewhere(section, 'enabled')) ?? otherwise
}

export function readEmbedding(reader: SettingsReader): EmbeddingSettings | undefined {
  const section = { key: 'embedding.', variable: 'EMBEDDING_' }
  const settings = readEmbedder(reader, section, '')
  if (!isEnabled(reader, section, settings !== undefined)) return undefined
  if (settings === undefined) reader.refuse('embedding.provider', 'must be given where embeddings are on')
  else requireReach(reader, section, settings)
  return settings
}

export function readKnowledgebase(reader: SettingsReader): McpSettings['knowledgebase'] {
  const section = { key: 'knowledgebase.', variable: 'KB_' }
  const file = reader.take('knowledgebase.database_path', path(), elsewhere(section, 'database_path'))
  const embedding = readEmbedder(reader, section, 'embedding_')
  if (!isEnabled(reader, section, file !== undefined)) return undefined
  if (file === undefined) reader.refuse('knowledgebase.database_path', 'must be given where the knowledge base is on')
  if (embedding === undefined)
    reader.refuse('knowledgebase.embedding_provider', 'must be given where the knowledge base is on')
  if (file === undefined || embedding === undefined) return undefined
  requireReach(reader, { ...section, key: 'knowledgebase.embedding_' }, embedding)
  return { path: file, embedding }
}

/** Every provider that can be reached, the one that is named first. */
export function readLlm(reader: SettingsReader): LlmSettings[] {
  const section = { key: 'llm.', variable: 'LLM_' }
  const preferred = reader.take('llm.provider', choice(...llmProviders), elsewhere(section, 'provider'))
  const model = reader.take('llm.model', words(), elsewhere(section, 'model'))
  const maximumTokens = reader.take('llm.max_tokens', whole(1, 1_000_000), elsewhere(section, 'max_tokens')) ?? 4_096
  const temperature = reader.take('llm.temperature', decimal(0, 2), elsewhere(section, 'temperature'))
  const timeoutMs = reader.take('llm.timeout', duration(100, 3_600_000), elsewhere(section, 'timeout')) ?? 120_000
  const reaches = new Map(llmProviders.map(one => [one, readReach(reader, section, one)]))
  if (!isEnabled(reader, section, preferred !== undefined)) return []
  if (preferred === undefined) {
    reader.refuse('llm.provider', 'must be given where language models are on')
    return []
  }
  const settingsOf = (provider: LlmSettings['provider']): LlmSettings => ({
    provider,
    // A model is of one provider.
    model: provider === preferred ? model : undefined,
    ...(reaches.get(provider) ?? { apiKey: undefined, baseUrl: undefined }),
    maximumTokens,
    temperature,
    timeoutMs,
  })
  const first = settingsOf(preferred)
  if (preferred !== 'ollama' && first.apiKey === undefined && first.baseUrl === undefined)
    reader.refuse(`llm.${preferred}_api_key`, `must be given where the provider is ${preferred}, or a base URL`)
  const others = llmProviders
    .filter(one => one !== preferred)
    .map(settingsOf)
    .filter(({ apiKey, baseUrl }) => apiKey !== undefined || baseUrl !== undefined)
  const all = [first, ...others]
  if (temperature !== undefined && temperature > 1 && all.some(({ provider }) => provider === 'anthropic'))
    reader.refuse(
      'llm.temperature',
      'must be a number from 0 to 1 where Anthropic can be asked',
      elsewhere(section, 'temperature'),
    )
  return all
}
