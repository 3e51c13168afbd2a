/** What the wires of chat providers have in common: reading of what models say, and of what tools are for. */
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

/** Puts the pieces of a streamed answer together. The pieces are checked: what is not as it must be throws a ZodError. */
export type Assembly = {
  /** Returns the text that the piece adds to the answer. */
  take(piece: unknown): string
  isComplete(): boolean
  /** Returns what the provider would have answered at once. */
  whole(): unknown
}

/** How a request that is to be answered in pieces differs from the other. */
type Streaming = {
  readonly format: StreamFormat
  /** Beside the request's own members. */
  readonly body: object
  readonly path?: (path: string) => string
  assemble(): Assembly
}

/** One provider's language: what it is asked, and how its answers read. Pure; `newId` names calls that the provider leaves without a name. */
export type ChatWire = Protocol & {
  chat(
    request: ChatRequest,
    newId: () => string,
  ): Pick<Question<ChatAnswer>, 'path' | 'answer'> & { readonly body: object }
  readonly streaming: Streaming
  readonly models: Pick<Question<readonly ChatModel[]>, 'path' | 'answer'>
  /** Beside the key. */
  readonly headers?: Readonly<Record<string, string>>
}

export type ChatSettings = EndpointSettings & { readonly provider: 'anthropic' | 'openai' | 'gemini' | 'ollama' }

/** Keeps the schema of each function that names calls: a schema that is made for one answer takes longer to make than the answer to read. */
export function madeOnce<Schema extends object>(
  make: (newId: () => string) => Schema,
): (newId: () => string) => Schema {
  const made = new WeakMap<() => string, Schema>()
  return newId => {
    const kept = made.get(newId) ?? make(newId)
    made.set(newId, kept)
    return kept
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

/** What models are told of a result that is a failure, where the wire has no place to say so. */
export const resultText = ({ content, is_error }: { content: string; is_error?: boolean | undefined }): string =>
  is_error ? `Error: ${content}` : content

/** The names of tools by the ids of their calls; a later call of an id counts for what comes after it, so this is asked message by message. */
export function createCallNames(): { note(message: ChatMessage): void; nameOf(id: string): string } {
  const names = new Map<string, string>()
  return {
    note: ({ content }) => {
      for (const { id, name } of toolUsesOf(content)) names.set(id, name)
    },
    nameOf: id => names.get(id) ?? id,
  }
}

/** Arguments that came as a text of JSON. */
export const jsonText = z.string().transform((text, context): JsonMap => {
  if (text.trim() === '') return {}
  try {
    const parsed = jsonMap.safeParse(JSON.parse(text))
    if (parsed.success) return parsed.data
  } catch {
    // Told below.
  }
  context.addIssue({ code: 'custom', message: 'arguments of a tool call must be a JSON object' })
  return z.NEVER
})
