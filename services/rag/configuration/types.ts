/** The retrieval server's settings, after file, environment and command line have been read and checked. */
import type { Address } from '../../postgres/address.ts'
import type { Filter } from '../request/filter.ts'

/** `headers` are added to each request to the provider. */
type EndpointSettings<Provider> = {
  readonly provider: Provider
  readonly model: string
  readonly apiKey: string | undefined
  /** undefined: the provider's own. */
  readonly baseUrl: string | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Timeout of one request, including its attempts. */
  readonly timeoutMs: number
  /** Timeout of one attempt. */
  readonly attemptTimeoutMs: number
}

export type EmbeddingSettings = EndpointSettings<'openai' | 'voyage' | 'gemini' | 'ollama'>
export type CompletionSettings = EndpointSettings<'openai' | 'anthropic' | 'gemini' | 'ollama'>
/** Any server compatible with Voyage's reranking endpoint. `depth`: how many documents it receives. */
export type RerankSettings = EndpointSettings<'voyage'> & { readonly depth: number }

/** `sql`: a WHERE condition, set by the server's administrator; requests can only have conditions. */
export type TableFilter =
  | { readonly kind: 'sql'; readonly text: string }
  | { readonly kind: 'conditions'; readonly filter: Filter }

export type TableSettings = {
  /** undefined: found by the search path. */
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
  /** undefined: off. */
  readonly rerank: RerankSettings | undefined
  /** The maximum length of a completion, in tokens of the model. */
  readonly tokenBudget: number
  /** The maximum length of documents and history in a prompt, in tokens. */
  readonly contextTokens: number
  /** The default number of documents of a request. */
  readonly topN: number
  /** undefined: the built-in one. */
  readonly systemPrompt: string | undefined
  readonly hybridEnabled: boolean
  /** From 0 (words alone) to 1 (vectors alone). */
  readonly vectorWeight: number
  /** From 0 (no floor) to 1; applies to documents found only by their vector. */
  readonly minSimilarity: number
  /** Timeout of a statement of a search, if an index can answer instead. */
  readonly exactTimeoutMs: number
  /** Whether requests may return the documents themselves. */
  readonly allowSources: boolean
  /** Concurrent requests; more are refused. */
  readonly maximumConcurrentRequests: number
}

export type ServerSettings = {
  readonly host: string
  readonly port: number
  /**
   * Names by which clients may reach a server that listens for this machine only, beside loopback names and addresses;
   * in lower case.
   */
  readonly allowedHosts: readonly string[]
  /** Timeout of a request until its answer, of a stream until its next event. */
  readonly requestTimeoutMs: number
  readonly streamTimeoutMs: number
  readonly tls: { readonly certificateFile: string; readonly keyFile: string } | undefined
  /** undefined: off. `*` is any origin. */
  readonly cors: { readonly allowedOrigins: readonly string[] } | undefined
}

export type RagSettings = {
  readonly server: ServerSettings
  /** At least one; names are unique. */
  readonly pipelines: readonly PipelineSettings[]
  readonly logLevel: string
}
