/** Other people's models: for embeddings, for chat, and for the questions asked of the knowledge base. */
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

type Given = Settings<typeof keys>
type Refuse = Checks['refuse']
type Provider = EmbeddingSettings['provider'] | LlmSettings['provider']
type Reach = { readonly apiKey?: string; readonly baseUrl?: string }
type Reaches = Readonly<Partial<Record<Exclude<Provider, 'ollama'>, Reach>>> & {
  readonly ollama: { readonly url?: string }
}

/** Where a provider is and with which key it is asked. Ollama has no key, and is where its URL says. */
const reachOf = (given: Reaches, provider: Provider): { apiKey: string | undefined; baseUrl: string | undefined } =>
  provider === 'ollama'
    ? { apiKey: undefined, baseUrl: given.ollama.url }
    : { apiKey: given[provider]?.apiKey, baseUrl: given[provider]?.baseUrl }

function embedderOf(given: Given['knowledgebase']['embedding']): EmbeddingSettings | undefined {
  const { provider, model, perAttemptTimeout: timeoutMs } = given
  if (provider === undefined) return undefined
  return { provider, model: model ?? defaultModels[provider], ...reachOf(given, provider), timeoutMs }
}

/** A provider that asks for a key does so at its own address; at another it may not. */
function requireReach(
  refuse: Refuse,
  prefix: string,
  { provider, apiKey, baseUrl }: Reach & { provider: Provider },
): void {
  if (provider !== 'ollama' && apiKey === undefined && baseUrl === undefined)
    refuse(`${prefix}${provider}_api_key`, `must be given where the provider is ${provider}, or a base URL`)
}

export function embeddingOf({ embedding }: Given, refuse: Refuse): EmbeddingSettings | undefined {
  const settings = embedderOf(embedding)
  if (!(embedding.enabled ?? settings !== undefined)) return undefined
  if (settings === undefined) refuse('embedding.provider', 'must be given where embeddings are on')
  else requireReach(refuse, 'embedding.', settings)
  return settings
}

export function knowledgebaseOf({ knowledgebase }: Given, refuse: Refuse): McpSettings['knowledgebase'] {
  const { enabled, databasePath: path } = knowledgebase
  const embedding = embedderOf(knowledgebase.embedding)
  if (!(enabled ?? path !== undefined)) return undefined
  const rule = 'must be given where the knowledge base is on'
  if (path === undefined) refuse('knowledgebase.database_path', rule)
  if (embedding === undefined) refuse('knowledgebase.embedding_provider', rule)
  if (path === undefined || embedding === undefined) return undefined
  requireReach(refuse, 'knowledgebase.embedding_', embedding)
  return { path, embedding }
}

/** Every provider that can be reached, the one that is named first. */
export function llmOf({ llm }: Given, refuse: Refuse): LlmSettings[] {
  const { provider: preferred, temperature, maxTokens: maximumTokens, timeout: timeoutMs } = llm
  if (!(llm.enabled ?? preferred !== undefined)) return []
  if (preferred === undefined) {
    refuse('llm.provider', 'must be given where language models are on')
    return []
  }
  const settingsOf = (provider: LlmSettings['provider']): LlmSettings => ({
    provider,
    // A model is of one provider.
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
    refuse('llm.temperature', 'must be a number from 0 to 1 where Anthropic can be asked')
  return all
}
