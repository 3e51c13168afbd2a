/** What the wires of chat providers have in common: reading of what models say, and of what tools are for. */
import { z } from 'zod'
import type { EndpointSettings, Protocol } from '../endpoint.ts'
import type { Question } from '../exchange.ts'
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

/** One provider's language: what it is asked, and how its answers read. Pure; `newId` names calls that the provider leaves without a name. */
export type ChatWire = Protocol & {
  chat(request: ChatRequest, newId: () => string): Pick<Question<ChatAnswer>, 'path' | 'body' | 'answer'>
  readonly models: Pick<Question<readonly ChatModel[]>, 'path' | 'answer'>
  /** Beside the key. */
  readonly headers?: Readonly<Record<string, string>>
}

export type ChatSettings = EndpointSettings & { readonly provider: 'anthropic' | 'openai' | 'gemini' | 'ollama' }

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
