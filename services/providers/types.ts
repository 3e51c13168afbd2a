/** Embedding and language models of other people, behind one shape each. */

/** @throws ProviderError; what the signal is aborted with */
export type Embedder = {
  readonly provider: string
  readonly model: string
  /**
   * One vector for each text, in order. `purpose`: some models embed what is searched and what is searched for differently. `onTokens`: called with what the provider counts for some of the texts;
   * undefined if it reports nothing.
   */
  embed(
    texts: readonly string[],
    purpose: 'query' | 'document',
    signal: AbortSignal,
    onTokens?: (tokens: number | undefined, texts: readonly string[]) => void,
  ): Promise<readonly (readonly number[])[]>
}

/** JSON as tools take and give it. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }
export type JsonMap = { readonly [key: string]: JsonValue }

/** A model asks for a tool. `id` is what the result names; `signature`: what Gemini wants back with the call, unread. */
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

/** Results of tools are said by the user. `cache`: the provider may keep what goes before and with it, where it can be told so. */
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
  /** Of the prompt; where the provider says it. */
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
  /** The model's own where it is not given. */
  readonly temperature?: number | undefined
  /** Tokens of prompt and answer at most. Ollama drops the beginning of a prompt that is longer than the request allows; the others read what they can. */
  readonly windowTokens?: number
}

/** `text`: what the answer goes on with. `end`: the whole answer. */
export type ChatEvent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'end'; readonly answer: ChatAnswer }

export type ChatModel = { readonly name: string; readonly description?: string }

/** @throws ProviderError; what the signal is aborted with */
export type ChatProvider = {
  readonly provider: string
  chat(request: ChatRequest, signal: AbortSignal): Promise<ChatAnswer>
  /** The answer as it comes; its last event is `end`. Reading no further ends the request. */
  stream(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent>
  models(signal: AbortSignal): Promise<readonly ChatModel[]>
}
