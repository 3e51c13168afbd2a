/** Settings of model providers for embeddings, chat, and queries of the knowledge base. */
import type { Settings } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import { type keys, llmProviders } from './keys.ts'
import type { EmbeddingSettings, LlmSettings, McpSettings } from './types.ts'

const defaultModels: Readonly<Record<EmbeddingSettings['provider'], string>> = {
  voyage: 'voyage-3.5',
  openai: 'text-embedding-3-small',
  ollama: 'nomic-embed-text',
  gemini: 'gemini-embedding-001',
}

type ReadSettings = Settings<typeof keys>
type Refuse = Checks['refuse']
type Provider = EmbeddingSettings['provider'] | LlmSettings['provider']
type Reach = { readonly apiKey?: string; readonly baseUrl?: string }
type Reaches = Readonly<Partial<Record<Exclude<Provider, 'ollama'>, Reach>>> & {
  readonly ollama: { readonly url?: string }
}

/** A provider's URL and key. Ollama has a URL and no key. */
const reachOf = (settings: Reaches, provider: Provider): { apiKey: string | undefined; baseUrl: string | undefined } =>
  provider === 'ollama'
    ? { apiKey: undefined, baseUrl: settings.ollama.url }
    : { apiKey: settings[provider]?.apiKey, baseUrl: settings[provider]?.baseUrl }

function embedderOf(settings: ReadSettings['knowledgebase']['embedding']): EmbeddingSettings | undefined {
  const { provider, model, perAttemptTimeout: timeoutMs } = settings
  if (provider === undefined) return undefined
  return { provider, model: model ?? defaultModels[provider], ...reachOf(settings, provider), timeoutMs }
}

/** At its default URL, a provider may require a key. At another URL, the key is optional. */
function requireReach(
  refuse: Refuse,
  prefix: string,
  { provider, apiKey, baseUrl }: Reach & { provider: Provider },
): void {
  if (provider !== 'ollama' && apiKey === undefined && baseUrl === undefined)
    refuse(`${prefix}${provider}_api_key`, `is required for the provider ${provider}, or a base URL`)
}

export function embeddingOf({ embedding }: ReadSettings, refuse: Refuse): EmbeddingSettings | undefined {
  const settings = embedderOf(embedding)
  if (!(embedding.enabled ?? settings !== undefined)) return undefined
  if (settings === undefined) refuse('embedding.provider', 'is required when embeddings are on')
  else requireReach(refuse, 'embedding.', settings)
  return settings
}

export function knowledgebaseOf({ knowledgebase }: ReadSettings, refuse: Refuse): McpSettings['knowledgebase'] {
  const { enabled, databasePath: path } = knowledgebase
  const embedding = embedderOf(knowledgebase.embedding)
  if (!(enabled ?? path !== undefined)) return undefined
  const rule = 'is required when the knowledge base is on'
  if (path === undefined) refuse('knowledgebase.database_path', rule)
  if (embedding === undefined) refuse('knowledgebase.embedding_provider', rule)
  if (path === undefined || embedding === undefined) return undefined
  requireReach(refuse, 'knowledgebase.embedding_', embedding)
  return { path, embedding }
}

/** All available providers. The configured provider is first. */
export function llmOf({ llm }: ReadSettings, refuse: Refuse): LlmSettings[] {
  const { provider: preferred, temperature, maxTokens: maximumTokens, timeout: timeoutMs } = llm
  if (!(llm.enabled ?? preferred !== undefined)) return []
  if (preferred === undefined) {
    refuse('llm.provider', 'is required when language models are on')
    return []
  }
  const settingsOf = (provider: LlmSettings['provider']): LlmSettings => ({
    provider,
    // The configured model belongs to the configured provider only.
    model: provider === preferred ? llm.model : undefined,
    ...reachOf(llm, provider),
    maximumTokens,
    temperature,
    timeoutMs,
  })
  const first = settingsOf(preferred)
  requireReach(refuse, 'llm.', first)
  const others = llmProviders
    .filter(one => one !== preferred)
    .map(settingsOf)
    .filter(({ apiKey, baseUrl }) => apiKey !== undefined || baseUrl !== undefined)
  const all = [first, ...others]
  if (temperature !== undefined && temperature > 1 && all.some(({ provider }) => provider === 'anthropic'))
    refuse('llm.temperature', 'must be a number from 0 to 1 if Anthropic is available')
  return all
}
