/** The retrieval server's settings, after they were read from file, environment and command line, and checked. */
import type { Address } from '../../postgres/address.ts'
import type { Filter } from '../request/filter.ts'

/** `headers`: added to each request to the provider. */
type EndpointSettings<Provider> = {
  readonly provider: Provider
  readonly model: string
  readonly apiKey: string | undefined
  /** undefined: the provider's default URL. */
  readonly baseUrl: string | undefined
  readonly headers: Readonly<Record<string, string>>
  /** The timeout of one request, including all attempts. */
  readonly timeoutMs: number
  /** The timeout of one attempt. */
  readonly attemptTimeoutMs: number
}

export type EmbeddingSettings = EndpointSettings<'openai' | 'voyage' | 'gemini' | 'ollama'>
export type CompletionSettings = EndpointSettings<'openai' | 'anthropic' | 'gemini' | 'ollama'>
/**
 * Settings of any server that is compatible with Voyage's reranking endpoint. `depth`: how many documents the server
 * receives.
 */
export type RerankSettings = EndpointSettings<'voyage'> & { readonly depth: number }

/** `sql`: a WHERE condition, which only the configuration can have. Requests can only have `conditions`. */
export type TableFilter =
  | { readonly kind: 'sql'; readonly text: string }
  | { readonly kind: 'conditions'; readonly filter: Filter }

export type TableSettings = {
  /** undefined: the search path finds the table. */
  readonly schema: string | undefined
  readonly name: string
  readonly textColumn: string
  readonly vectorColumn: string
  readonly idColumn: string
  readonly filter: TableFilter | undefined
}

export type PipelineSettings = {
  readonly name: string
  readonly description: string
  readonly address: Address
  /** The maximum number of connections. */
  readonly poolSize: number
  readonly tables: readonly TableSettings[]
  readonly embedding: EmbeddingSettings
  readonly completion: CompletionSettings
  /** undefined: reranking is off. */
  readonly rerank: RerankSettings | undefined
  /** The maximum length of a completion, in tokens of the model. */
  readonly tokenBudget: number
  /** The maximum length of documents and conversation in a prompt, in tokens. */
  readonly contextTokens: number
  /** How many documents a request uses by default. */
  readonly topN: number
  /** undefined: the built-in prompt. */
  readonly systemPrompt: string | undefined
  readonly hybridEnabled: boolean
  /** From 0 (only words) to 1 (only vectors). */
  readonly vectorWeight: number
  /** From 0 (no minimum) to 1. Applies to documents that only their vector finds. */
  readonly minSimilarity: number
  /** The statement timeout of a search for which an index can answer instead. */
  readonly exactTimeoutMs: number
  /** Whether requests may return the documents themselves. */
  readonly allowSources: boolean
  /** The maximum number of concurrent requests. The server refuses further requests. */
  readonly maximumConcurrentRequests: number
}

export type ServerSettings = {
  readonly host: string
  readonly port: number
  /**
   * In lower case: names by which clients may reach a server that listens only on this machine, besides loopback names
   * and addresses.
   */
  readonly allowedHosts: readonly string[]
  /** The timeout of a request until its answer, or of a stream until its next event. */
  readonly requestTimeoutMs: number
  readonly streamTimeoutMs: number
  readonly tls: { readonly certificateFile: string; readonly keyFile: string } | undefined
  /** undefined: CORS is off. `*` allows any origin. */
  readonly cors: { readonly allowedOrigins: readonly string[] } | undefined
}

export type RagSettings = {
  readonly server: ServerSettings
  /** At least one pipeline. Names are unique. */
  readonly pipelines: readonly PipelineSettings[]
  readonly logLevel: string
}
