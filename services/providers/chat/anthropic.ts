/**
 * Anthropic's Messages API. Chats use its blocks as their internal format. The system prompt is separate from the
 * messages.
 */
import { z } from 'zod'
import type { ChatAnswer, ChatBlock, ChatMessage, ChatRequest, StopReason } from '../types.ts'
import { assembleAnthropic } from './assembly/anthropic.ts'
import { type ChatWire, jsonMap, tokenCount, usageOf } from './wire.ts'

/** Anthropic refuses more cache breakpoints than this. */
const maximumCachePoints = 4
const cacheControl = { cache_control: { type: 'ephemeral' } }

function block(one: ChatBlock): readonly object[] {
  switch (one.type) {
    case 'text':
      // Anthropic refuses an empty text.
      return one.text.trim() === '' ? [] : [{ type: 'text', text: one.text }]
    case 'tool_use':
      return [{ type: 'tool_use', id: one.id, name: one.name, input: one.input }]
    case 'tool_result':
      return [
        {
          type: 'tool_result',
          tool_use_id: one.tool_use_id,
          content: one.content,
          ...(one.is_error && { is_error: true }),
        },
      ]
  }
}

const blocks = ({ content }: ChatMessage, isCached: boolean): object[] => {
  // Anthropic requires tool results before other blocks.
  const results = content.filter(({ type }) => type === 'tool_result')
  const others = content.filter(({ type }) => type !== 'tool_result')
  const all = [...results, ...others].flatMap(block)
  const last = all.pop()
  return last === undefined ? all : [...all, isCached ? { ...last, ...cacheControl } : last]
}

function anthropicBody({ model, messages, tools, maximumTokens, temperature }: ChatRequest) {
  const cached = new Set(messages.filter(({ cache }) => cache).slice(-maximumCachePoints))
  const written = messages.map(message => ({ role: message.role, content: blocks(message, cached.has(message)) }))
  const system = written.filter(({ role }) => role === 'system').flatMap(({ content }) => content)
  return {
    model,
    max_tokens: maximumTokens,
    ...(temperature !== undefined && { temperature }),
    messages: written.filter(({ role, content }) => role !== 'system' && content.length > 0),
    ...(system.length > 0 && { system }),
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema })),
    }),
  }
}

const stopReasons: Readonly<Record<string, StopReason>> = {
  tool_use: 'tool_use',
  max_tokens: 'max_tokens',
  model_context_window_exceeded: 'max_tokens',
  refusal: 'refusal',
}

const answerBlock = z.union([
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('tool_use'), id: z.string().min(1), name: z.string().min(1), input: jsonMap }),
  // Block types that the request did not ask for, such as thinking.
  z.object({ type: z.string().refine(type => type !== 'text' && type !== 'tool_use') }).transform(() => undefined),
])

const answer = z
  .object({
    content: z.array(answerBlock),
    stop_reason: z.string().nullish(),
    usage: z
      .object({
        input_tokens: tokenCount,
        output_tokens: tokenCount,
        cache_creation_input_tokens: tokenCount,
        cache_read_input_tokens: tokenCount,
      })
      .nullish(),
  })
  .transform(({ content, stop_reason, usage }): ChatAnswer => {
    const created = usage?.cache_creation_input_tokens ?? 0
    const read = usage?.cache_read_input_tokens ?? 0
    return {
      content: content.filter(one => one !== undefined),
      stop_reason: stopReasons[stop_reason ?? ''] ?? 'end_turn',
      ...(usage && {
        token_usage: {
          ...usageOf(usage.input_tokens + created + read, usage.output_tokens),
          ...(created > 0 && { cache_creation_tokens: created }),
          ...(read > 0 && { cache_read_tokens: read }),
        },
      }),
    }
  })

export const anthropic: ChatWire = {
  provider: 'anthropic',
  defaultBaseUrl: 'https://api.anthropic.com/v1',
  keyHeaders: key => ({ 'x-api-key': key }),
  headers: { 'anthropic-version': '2023-06-01' },
  chat: request => ({ path: '/messages', body: anthropicBody(request), answer }),
  streaming: { format: 'events', body: { stream: true }, assemble: assembleAnthropic },
  models: {
    path: '/models?limit=1000',
    answer: z
      .object({ data: z.array(z.object({ id: z.string(), display_name: z.string().nullish() })) })
      .transform(({ data }) =>
        data.map(({ id, display_name }) => ({ name: id, ...(display_name && { description: display_name }) })),
      ),
  },
}
