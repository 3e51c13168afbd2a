/**
 * OpenAI's Chat Completions API, as many servers implement it. Tool results are separate messages with the id of their
 * call.
 */
import { z } from 'zod'
import { bearer } from '../endpoint.ts'
import type { ChatAnswer, ChatMessage, ChatRequest, StopReason } from '../types.ts'
import { assembleOpenAi } from './assembly/openai.ts'
import { type ChatWire, jsonText, madeOnce, resultText, textOf, tokenCount, toolUsesOf, usageOf } from './wire.ts'

function openAiMessages({ role, content }: ChatMessage): readonly object[] {
  const results = content.flatMap(block =>
    block.type === 'tool_result' ? [{ role: 'tool', tool_call_id: block.tool_use_id, content: resultText(block) }] : [],
  )
  const calls = toolUsesOf(content).map(({ id, name, input }) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }))
  const text = textOf(content)
  if (calls.length > 0) return [...results, { role, content: text === '' ? null : text, tool_calls: calls }]
  return text === '' && results.length > 0 ? results : [...results, { role, content: text }]
}

const stopReasons: Readonly<Record<string, StopReason>> = {
  tool_calls: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
}

const answer = madeOnce(newId =>
  z
    .object({
      choices: z.tuple(
        [
          z.object({
            finish_reason: z.string().nullish(),
            message: z.object({
              content: z.string().nullish(),
              refusal: z.string().nullish(),
              tool_calls: z
                .array(
                  z.object({
                    id: z.string().nullish(),
                    function: z.object({ name: z.string().min(1), arguments: jsonText }),
                  }),
                )
                .nullish(),
            }),
          }),
        ],
        z.unknown(),
      ),
      usage: z
        .object({
          prompt_tokens: tokenCount,
          completion_tokens: tokenCount,
          prompt_tokens_details: z.object({ cached_tokens: tokenCount }).nullish(),
        })
        .nullish(),
    })
    .transform(({ choices: [{ message, finish_reason }], usage }): ChatAnswer => {
      const text = message.content || message.refusal || ''
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
        type: 'tool_use' as const,
        id: id || newId(),
        name,
        input,
      }))
      // Some servers send `stop` although the response has calls.
      const ended: StopReason = calls.length > 0 ? 'tool_use' : message.refusal ? 'refusal' : 'end_turn'
      const cached = usage?.prompt_tokens_details?.cached_tokens
      return {
        content: [...(text === '' ? [] : [{ type: 'text' as const, text }]), ...calls],
        stop_reason: stopReasons[finish_reason ?? ''] ?? ended,
        ...(usage && {
          token_usage: {
            ...usageOf(usage.prompt_tokens, usage.completion_tokens),
            ...(cached ? { cache_read_tokens: cached } : {}),
          },
        }),
      }
    }),
)

const openAiBody = ({ model, messages, tools, maximumTokens, temperature }: ChatRequest, limit: string) => ({
  model,
  messages: messages.flatMap(openAiMessages),
  [limit]: maximumTokens,
  ...(temperature !== undefined && { temperature }),
  ...(tools.length > 0 && {
    tools: tools.map(({ name, description, inputSchema }) => ({
      type: 'function',
      function: { name, description, parameters: inputSchema },
    })),
  }),
})

/**
 * `isOpenAi`: whether the provider is OpenAI itself, which renamed the token limit. Other servers support only the old
 * name.
 */
export const openAi = (isOpenAi: boolean): ChatWire => ({
  provider: 'openai',
  defaultBaseUrl: 'https://api.openai.com/v1',
  keyHeaders: bearer,
  chat: (request, newId) => ({
    path: '/chat/completions',
    body: openAiBody(request, isOpenAi ? 'max_completion_tokens' : 'max_tokens'),
    answer: answer(newId),
  }),
  streaming: {
    format: 'events',
    body: { stream: true, stream_options: { include_usage: true } },
    assemble: assembleOpenAi,
  },
  models: {
    path: '/models',
    answer: z
      .object({ data: z.array(z.object({ id: z.string() })) })
      .transform(({ data }) => data.map(({ id }) => ({ name: id }))),
  },
})
