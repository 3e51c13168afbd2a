/** Interfaces of external embedding models and language models. */

/** @throws ProviderError; the signal's reason */
export type Embedder = {
  readonly provider: string
  readonly model: string
  /**
   * Returns one vector for each text, in order. `purpose`: some models embed documents and queries differently.
   * `onTokens`: called with the provider's token count for some of the texts; undefined if the provider reports none.
   */
  embed(
    texts: readonly string[],
    purpose: 'query' | 'document',
    signal: AbortSignal,
    onTokens?: (tokens: number | undefined, texts: readonly string[]) => void,
  ): Promise<readonly (readonly number[])[]>
}

/** JSON that tools receive and return. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }
export type JsonMap = { readonly [key: string]: JsonValue }

/**
 * A tool call of a model. `id`: the result refers to it. `signature`: the next request must send it back to Gemini
 * unchanged.
 */
export type ToolUse = {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  readonly input: JsonMap
  readonly signature?: string | undefined
}

type ToolResultBlock = {
  readonly type: 'tool_result'
  readonly tool_use_id: string
  readonly content: string
  readonly is_error?: boolean | undefined
}

export type ChatBlock = { readonly type: 'text'; readonly text: string } | ToolUse | ToolResultBlock

/**
 * Tool results are user messages. `cache`: the provider may cache the prompt up to this message, if it supports
 * caching.
 */
export type ChatMessage = {
  readonly role: 'user' | 'assistant' | 'system'
  readonly content: readonly ChatBlock[]
  readonly cache?: boolean
}

/** `inputSchema`: JSON Schema with an object at its root. */
export type ChatTool = { readonly name: string; readonly description: string; readonly inputSchema: JsonMap }

export type StopReason = 'end_turn' | 'tool_use' | 'max_tokens' | 'refusal'

export type TokenUsage = {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  /** Tokens of the prompt that the provider read from its cache, if it reports them. */
  readonly cache_read_tokens?: number
  readonly cache_creation_tokens?: number
}

export type ChatAnswer = {
  readonly content: readonly Exclude<ChatBlock, ToolResultBlock>[]
  readonly stop_reason: StopReason
  readonly token_usage?: TokenUsage
}

export type ChatRequest = {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  readonly maximumTokens: number
  /** undefined: the model's default. */
  readonly temperature?: number | undefined
  /**
   * The maximum tokens of prompt and response together. Ollama drops the start of a longer prompt. Other providers do
   * not use this value.
   */
  readonly windowTokens?: number
}

/** `text`: the next part of the response's text. `end`: the complete response. */
export type ChatEvent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'end'; readonly answer: ChatAnswer }

export type ChatModel = { readonly name: string; readonly description?: string }

/** @throws ProviderError; the signal's reason */
export type ChatProvider = {
  readonly provider: string
  chat(request: ChatRequest, signal: AbortSignal): Promise<ChatAnswer>
  /** Streams the response. The last event is `end`. Ending the iteration ends the request. */
  stream(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent>
  models(signal: AbortSignal): Promise<readonly ChatModel[]>
}
