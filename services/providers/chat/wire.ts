/** Shared parts of chat providers' wire formats. */
import { z } from 'zod'
import type { EndpointSettings, Protocol } from '../endpoint.ts'
import type { Question } from '../exchange.ts'
import type { StreamFormat } from '../stream.ts'
import type {
  ChatAnswer,
  ChatBlock,
  ChatMessage,
  ChatModel,
  ChatRequest,
  JsonMap,
  JsonValue,
  TokenUsage,
  ToolUse,
} from '../types.ts'

/** Assembles a streamed response. An invalid piece throws a ZodError. */
export type Assembly = {
  /** Returns the text that the piece adds to the response. */
  take(piece: unknown): string
  isComplete(): boolean
  /** Returns the response that the provider would have sent without streaming. */
  assembled(): unknown
}

/** The differences of a streaming request. */
type Streaming = {
  readonly format: StreamFormat
  /** Additional members of the request. */
  readonly body: object
  readonly path?: (path: string) => string
  assemble(): Assembly
}

/** A provider's request and response format. `newId` creates ids for calls without an id. */
export type ChatWire = Protocol & {
  chat(
    request: ChatRequest,
    newId: () => string,
  ): Pick<Question<ChatAnswer>, 'path' | 'answer'> & { readonly body: object }
  readonly streaming: Streaming
  readonly models: Pick<Question<readonly ChatModel[]>, 'path' | 'answer'>
  /** Headers in addition to the key. */
  readonly headers?: Readonly<Record<string, string>>
}

export type ChatSettings = EndpointSettings & { readonly provider: 'anthropic' | 'openai' | 'gemini' | 'ollama' }

/**
 * Caches the schema for each function that creates call ids, because creating a schema takes longer than parsing a
 * response.
 */
export function madeOnce<Schema extends object>(
  make: (newId: () => string) => Schema,
): (newId: () => string) => Schema {
  const made = new WeakMap<() => string, Schema>()
  return newId => {
    const created = made.get(newId) ?? make(newId)
    made.set(newId, created)
    return created
  }
}

const jsonValue: z.ZodType<JsonValue> = z.json()
export const jsonMap: z.ZodType<JsonMap> = z.record(z.string(), jsonValue)

export const tokenCount = z
  .int()
  .min(0)
  .nullish()
  .transform(count => count ?? 0)

export const usageOf = (prompt: number, completion: number, total = prompt + completion): TokenUsage => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: total,
})

export const textOf = (content: readonly ChatBlock[]): string =>
  content.flatMap(block => (block.type === 'text' && block.text !== '' ? [block.text] : [])).join('\n')

export const toolUsesOf = (content: readonly ChatBlock[]): readonly ToolUse[] =>
  content.filter(block => block.type === 'tool_use')

/** Adds a prefix to a failed result, for formats without an error flag. */
export const resultText = ({ content, is_error }: { content: string; is_error?: boolean | undefined }): string =>
  is_error ? `Error: ${content}` : content

/**
 * Tool names by call id. If a later call has the same id, it replaces the name for later messages. So `note` must be
 * called for one message after another.
 */
export function createCallNames(): { note(message: ChatMessage): void; nameOf(id: string): string } {
  const names = new Map<string, string>()
  return {
    note: ({ content }) => {
      for (const { id, name } of toolUsesOf(content)) names.set(id, name)
    },
    nameOf: id => names.get(id) ?? id,
  }
}

/** Parses arguments from JSON text. */
export const jsonText = z.string().transform((text, context): JsonMap => {
  if (text.trim() === '') return {}
  try {
    const parsed = jsonMap.safeParse(JSON.parse(text))
    if (parsed.success) return parsed.data
  } catch {
    // The check below reports the error.
  }
  context.addIssue({ code: 'custom', message: 'arguments of a tool call must be a JSON object' })
  return z.NEVER
})
