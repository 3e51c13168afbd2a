/**
 * Ollama's chat API. Tool results have the tool's name. Requests also have call ids, for versions that support them.
 */
import { z } from 'zod'
import { bearer } from '../endpoint.ts'
import type { ChatAnswer, ChatMessage, ChatRequest } from '../types.ts'
import { assembleOllama } from './assembly/ollama.ts'
import {
  type ChatWire,
  createCallNames,
  jsonMap,
  madeOnce,
  resultText,
  textOf,
  tokenCount,
  toolUsesOf,
  usageOf,
} from './wire.ts'

function ollamaMessages({ role, content }: ChatMessage, nameOf: (id: string) => string): readonly object[] {
  const results = content.flatMap(block =>
    block.type === 'tool_result'
      ? [
          {
            role: 'tool',
            tool_name: nameOf(block.tool_use_id),
            tool_call_id: block.tool_use_id,
            content: resultText(block),
          },
        ]
      : [],
  )
  const calls = toolUsesOf(content).map(({ id, name, input }) => ({ id, function: { name, arguments: input } }))
  const text = textOf(content)
  if (calls.length > 0) return [...results, { role, content: text, tool_calls: calls }]
  return text === '' && results.length > 0 ? results : [...results, { role, content: text }]
}

function ollamaBody({ model, messages, tools, maximumTokens, temperature, windowTokens }: ChatRequest) {
  const names = createCallNames()
  return {
    model,
    messages: messages.flatMap(message => {
      names.note(message)
      return ollamaMessages(message, names.nameOf)
    }),
    stream: false,
    options: {
      num_predict: maximumTokens,
      ...(temperature !== undefined && { temperature }),
      ...(windowTokens !== undefined && { num_ctx: windowTokens }),
    },
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, inputSchema }) => ({
        type: 'function',
        function: { name, description, parameters: inputSchema },
      })),
    }),
  }
}

const answer = madeOnce(newId =>
  z
    .object({
      message: z.object({
        content: z.string().nullish(),
        tool_calls: z
          .array(
            z.object({
              id: z.string().nullish(),
              function: z.object({ name: z.string().min(1), arguments: jsonMap.nullish() }),
            }),
          )
          .nullish(),
      }),
      done_reason: z.string().nullish(),
      prompt_eval_count: tokenCount,
      eval_count: tokenCount,
    })
    .transform(({ message, done_reason, prompt_eval_count, eval_count }): ChatAnswer => {
      const text = message.content ?? ''
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
        type: 'tool_use' as const,
        id: id || newId(),
        name,
        input: input ?? {},
      }))
      const ended = done_reason === 'length' ? 'max_tokens' : 'end_turn'
      return {
        content: [...(text === '' ? [] : [{ type: 'text' as const, text }]), ...calls],
        stop_reason: calls.length > 0 ? 'tool_use' : ended,
        token_usage: usageOf(prompt_eval_count, eval_count),
      }
    }),
)

export const ollama: ChatWire = {
  provider: 'ollama',
  defaultBaseUrl: 'http://127.0.0.1:11434',
  keyHeaders: bearer,
  chat: (request, newId) => ({ path: '/api/chat', body: ollamaBody(request), answer: answer(newId) }),
  streaming: { format: 'lines', body: { stream: true }, assemble: assembleOllama },
  models: {
    path: '/api/tags',
    answer: z
      .object({ models: z.array(z.object({ name: z.string() })) })
      .transform(({ models }) => models.map(({ name }) => ({ name }))),
  },
}
