/**
 * Reads a chat message: its text, the tools that it calls, and the calls that it answers. Messages have Anthropic's
 * blocks or OpenAI's fields.
 */
import { z } from 'zod'
import type { Message } from './request.ts'

/** `id`: a call and its result have the same id. `input`: the call's arguments, if any. */
export type ToolMention = {
  readonly kind: 'call' | 'result'
  readonly id: string
  readonly name: string | undefined
  readonly input: string
}

// Ignores everything that is not a valid call or result, so that no chat is refused for it.
const call = z.object({ type: z.literal('tool_use'), id: z.string(), name: z.string(), input: z.unknown() })
const result = z.object({ type: z.literal('tool_result'), tool_use_id: z.string(), content: z.unknown() })
const openAiCalls = z.array(
  z.object({ id: z.string(), function: z.object({ name: z.string(), arguments: z.unknown() }) }),
)

const asText = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))

export function toolMentions(message: Message): readonly ToolMention[] {
  const { content, tool_calls, tool_call_id, name } = message
  const mentions: ToolMention[] = []
  for (const block of typeof content === 'string' ? [] : content) {
    const called = call.safeParse(block)
    const answered = result.safeParse(block)
    if (called.success) {
      const { id, name: tool, input } = called.data
      mentions.push({ kind: 'call', id, name: tool, input: asText(input) })
    } else if (answered.success) {
      mentions.push({ kind: 'result', id: answered.data.tool_use_id, name: undefined, input: '' })
    }
  }
  for (const { id, function: used } of openAiCalls.safeParse(tool_calls).data ?? []) {
    mentions.push({ kind: 'call', id, name: used.name, input: asText(used.arguments) })
  }
  if (typeof tool_call_id === 'string') {
    mentions.push({ kind: 'result', id: tool_call_id, name: typeof name === 'string' ? name : undefined, input: '' })
  }
  return mentions
}

/** The text, without calls and results. */
export const wordsOf = ({ role, content }: Message): string => {
  if (role === 'tool') return ''
  if (typeof content === 'string') return content
  return content.flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : [])).join('\n')
}

/** Everything in a message that takes tokens. A block without a text counts as its JSON. */
export function textWithResults(message: Message): string {
  const { content, tool_calls } = message
  const calls = tool_calls === undefined ? '' : asText(tool_calls)
  if (typeof content === 'string') return content + calls
  return content.map(block => (block.type === 'text' ? asText(block.text) : JSON.stringify(block))).join('\n') + calls
}
