/** The settings of the retrieval server, as they are once file, environment and command line have been read and checked. */
import type { Address } from '../../postgres/address.ts'
import type { Filter } from '../request/filter.ts'

/** `headers` go with each request to the provider, beside its own. */
type EndpointSettings<Provider> = {
  readonly provider: Provider
  readonly model: string
  readonly apiKey: string | undefined
  /** undefined: the provider's own. */
  readonly baseUrl: string | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Of one request, with the tries that it takes. */
  readonly timeoutMs: number
  /** Of one try. */
  readonly attemptTimeoutMs: number
}

export type EmbeddingSettings = EndpointSettings<'openai' | 'voyage' | 'gemini' | 'ollama'>
export type CompletionSettings = EndpointSettings<'openai' | 'anthropic' | 'gemini' | 'ollama'>
/** Any server that speaks as Voyage's reranking endpoint does. `depth`: how many documents it is given. */
export type RerankSettings = EndpointSettings<'voyage'> & { readonly depth: number }

/** `sql`: the condition of a WHERE clause, by the person who runs the server; requests have conditions only. */
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
  /** Connections at most. */
  readonly poolSize: number
  readonly tables: readonly TableSettings[]
  readonly embedding: EmbeddingSettings
  readonly completion: CompletionSettings
  /** undefined: off. */
  readonly rerank: RerankSettings | undefined
  /** Of a completion, in tokens of the model at most. */
  readonly tokenBudget: number
  /** Of documents and history in a prompt, in tokens at most. */
  readonly contextTokens: number
  /** How many documents a request gets that names no number. */
  readonly topN: number
  /** undefined: the built-in one. */
  readonly systemPrompt: string | undefined
  readonly hybridEnabled: boolean
  /** From 0 (words alone) to 1 (vectors alone). */
  readonly vectorWeight: number
  /** From 0 (no floor) to 1; of documents that only their vector has found. */
  readonly minSimilarity: number
  /** Of a statement of a search, where an index can answer instead. */
  readonly exactTimeoutMs: number
  /** Whether requests may have the documents themselves. */
  readonly allowSources: boolean
  /** Requests that run at a time; more are refused. */
  readonly maximumConcurrentRequests: number
}

export type ServerSettings = {
  readonly host: string
  readonly port: number
  /** Names by which clients may reach a server that listens for this machine only, beside loopback names and addresses; in lower case. */
  readonly allowedHosts: readonly string[]
  /** Of a request until its answer, of a stream until its next event. */
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
