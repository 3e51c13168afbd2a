/**
 * A second implementation of the chat formats, from the providers' documentation. It has strict schemas of requests,
 * and reads the calls and results of a request in order. Tests compare the product's conversions with it.
 */
import { z } from 'zod'
import type { JsonMap } from '../types.ts'

export type Language = 'anthropic' | 'openai' | 'gemini' | 'ollama'

/** A call or a result, as a provider reads it. `error`: only if the format can mark a result as an error. */
export type Exchanged =
  | {
      readonly kind: 'call'
      readonly id: string
      readonly name: string
      readonly input: JsonMap
      readonly signature?: string | undefined
    }
  | {
      readonly kind: 'result'
      readonly id: string
      readonly name?: string
      readonly text: string
      readonly error?: boolean
    }

export type Understood = {
  readonly system: string
  readonly texts: readonly string[]
  readonly exchanged: readonly Exchanged[]
  readonly tools: readonly { readonly name: string; readonly schema: JsonMap }[]
  readonly maximumTokens: number
  readonly temperature?: number | undefined
}

const map = z.record(z.string(), z.json())
const functionTools = z
  .array(
    z.strictObject({
      type: z.literal('function'),
      function: z.strictObject({ name: z.string(), description: z.string(), parameters: map }),
    }),
  )
  .default([])
const cacheControl = z.strictObject({ type: z.literal('ephemeral') }).optional()
const textBlock = z.strictObject({ type: z.literal('text'), text: z.string().min(1), cache_control: cacheControl })

const anthropicBody = z.strictObject({
  model: z.string(),
  stream: z.literal(true).optional(),
  max_tokens: z.int().min(1),
  temperature: z.number().min(0).max(1).optional(),
  system: z.array(textBlock).optional(),
  messages: z.array(
    z.strictObject({
      role: z.enum(['user', 'assistant']),
      content: z
        .array(
          z.discriminatedUnion('type', [
            textBlock,
            z.strictObject({
              type: z.literal('tool_use'),
              id: z.string(),
              name: z.string(),
              input: map,
              cache_control: cacheControl,
            }),
            z.strictObject({
              type: z.literal('tool_result'),
              tool_use_id: z.string(),
              content: z.string(),
              is_error: z.boolean().optional(),
              cache_control: cacheControl,
            }),
          ]),
        )
        .min(1),
    }),
  ),
  tools: z.array(z.strictObject({ name: z.string(), description: z.string(), input_schema: map })).default([]),
})

function readAnthropic(body: unknown): Understood {
  const { system = [], messages, tools, max_tokens, temperature } = anthropicBody.parse(body)
  const all = messages.flatMap(({ content }) => content)
  return {
    system: system.map(({ text }) => text).join('\n'),
    texts: all.flatMap(block => (block.type === 'text' ? [block.text] : [])),
    exchanged: all.flatMap((block): Exchanged[] => {
      if (block.type === 'tool_use') return [{ kind: 'call', id: block.id, name: block.name, input: block.input }]
      if (block.type === 'text') return []
      return [{ kind: 'result', id: block.tool_use_id, text: block.content, error: block.is_error === true }]
    }),
    tools: tools.map(({ name, input_schema }) => ({ name, schema: input_schema })),
    maximumTokens: max_tokens,
    temperature,
  }
}

const openAiBody = z.strictObject({
  model: z.string(),
  stream: z.literal(true).optional(),
  stream_options: z.strictObject({ include_usage: z.literal(true) }).optional(),
  max_tokens: z.int().min(1).optional(),
  max_completion_tokens: z.int().min(1).optional(),
  temperature: z.number().min(0).max(2).optional(),
  messages: z.array(
    z.discriminatedUnion('role', [
      z.strictObject({ role: z.literal('system'), content: z.string() }),
      z.strictObject({ role: z.literal('user'), content: z.string() }),
      z.strictObject({
        role: z.literal('assistant'),
        content: z.string().nullable(),
        tool_calls: z
          .array(
            z.strictObject({
              id: z.string(),
              type: z.literal('function'),
              function: z.strictObject({ name: z.string(), arguments: z.string() }),
            }),
          )
          .default([]),
      }),
      z.strictObject({ role: z.literal('tool'), tool_call_id: z.string(), content: z.string() }),
    ]),
  ),
  tools: functionTools,
})

const plainTexts = (messages: readonly { role: string; content: string | null }[]) =>
  messages.flatMap(({ role, content }) => ((role === 'user' || role === 'assistant') && content ? [content] : []))

function readOpenAi(body: unknown): Understood {
  const { messages, tools, max_tokens, max_completion_tokens, temperature } = openAiBody.parse(body)
  return {
    system: messages.flatMap(({ role, content }) => (role === 'system' ? [content] : [])).join('\n'),
    texts: plainTexts(messages),
    exchanged: messages.flatMap((message): Exchanged[] => {
      if (message.role === 'tool') return [{ kind: 'result', id: message.tool_call_id, text: message.content }]
      if (message.role !== 'assistant') return []
      return message.tool_calls.map(({ id, function: { name, arguments: text } }) => ({
        kind: 'call',
        id,
        name,
        input: map.parse(JSON.parse(text)),
      }))
    }),
    tools: tools.map(({ function: { name, parameters } }) => ({ name, schema: parameters })),
    maximumTokens: max_completion_tokens ?? max_tokens ?? 0,
    temperature,
  }
}

const geminiPart = z.union([
  z.strictObject({ text: z.string().min(1) }),
  z.strictObject({
    functionCall: z.strictObject({ id: z.string(), name: z.string(), args: map }),
    thoughtSignature: z.string().optional(),
  }),
  z.strictObject({
    functionResponse: z.strictObject({
      id: z.string(),
      name: z.string(),
      response: z.union([z.strictObject({ result: z.string() }), z.strictObject({ error: z.string() })]),
    }),
  }),
])
const geminiBody = z.strictObject({
  contents: z.array(z.strictObject({ role: z.enum(['user', 'model']), parts: z.array(geminiPart).min(1) })),
  systemInstruction: z.strictObject({ parts: z.array(z.strictObject({ text: z.string() })) }).optional(),
  generationConfig: z.strictObject({
    maxOutputTokens: z.int().min(1),
    temperature: z.number().min(0).max(2).optional(),
  }),
  tools: z
    .array(
      z.strictObject({
        functionDeclarations: z.array(
          z.strictObject({ name: z.string(), description: z.string(), parametersJsonSchema: map }),
        ),
      }),
    )
    .default([]),
})

function readGemini(body: unknown): Understood {
  const { contents, systemInstruction, generationConfig, tools } = geminiBody.parse(body)
  const parts = contents.flatMap(content => content.parts)
  return {
    system: (systemInstruction?.parts ?? []).map(({ text }) => text).join('\n'),
    texts: parts.flatMap(part => ('text' in part ? [part.text] : [])),
    exchanged: parts.flatMap((part): Exchanged[] => {
      if ('text' in part) return []
      if ('functionCall' in part) {
        const { id, name, args } = part.functionCall
        return [{ kind: 'call', id, name, input: args, signature: part.thoughtSignature }]
      }
      const { id, name, response } = part.functionResponse
      const isError = 'error' in response
      return [{ kind: 'result', id, name, text: isError ? response.error : response.result, error: isError }]
    }),
    tools: tools.flatMap(({ functionDeclarations }) =>
      functionDeclarations.map(({ name, parametersJsonSchema }) => ({ name, schema: parametersJsonSchema })),
    ),
    maximumTokens: generationConfig.maxOutputTokens,
    temperature: generationConfig.temperature,
  }
}

const ollamaBody = z.strictObject({
  model: z.string(),
  stream: z.boolean(),
  options: z.strictObject({
    num_predict: z.int().min(1),
    num_ctx: z.int().min(1).optional(),
    temperature: z.number().optional(),
  }),
  messages: z.array(
    z.strictObject({
      role: z.enum(['system', 'user', 'assistant', 'tool']),
      content: z.string(),
      tool_name: z.string().optional(),
      tool_call_id: z.string().optional(),
      tool_calls: z
        .array(z.strictObject({ id: z.string(), function: z.strictObject({ name: z.string(), arguments: map }) }))
        .default([]),
    }),
  ),
  tools: functionTools,
})

function readOllama(body: unknown): Understood {
  const { messages, tools, options } = ollamaBody.parse(body)
  return {
    system: messages.flatMap(({ role, content }) => (role === 'system' ? [content] : [])).join('\n'),
    texts: plainTexts(messages),
    exchanged: messages.flatMap(({ role, content, tool_name, tool_call_id, tool_calls }): Exchanged[] => {
      if (role === 'tool') return [{ kind: 'result', id: tool_call_id ?? '', name: tool_name ?? '', text: content }]
      return tool_calls.map(call => ({
        kind: 'call',
        id: call.id,
        name: call.function.name,
        input: call.function.arguments,
      }))
    }),
    tools: tools.map(({ function: { name, parameters } }) => ({ name, schema: parameters })),
    maximumTokens: options.num_predict,
    temperature: options.temperature,
  }
}

/** Reads a request as the provider does. Throws if the provider would respond with status 400. */
export const understand: Readonly<Record<Language, (body: unknown) => Understood>> = {
  anthropic: readAnthropic,
  openai: readOpenAi,
  gemini: readGemini,
  ollama: readOllama,
}

/** A model's response, independent of provider formats. */
export type Reply = {
  readonly text: string
  readonly calls?: readonly {
    readonly id: string
    readonly name: string
    readonly input: JsonMap
    readonly signature?: string
  }[]
}

/** The provider's response to a prompt of 10 tokens, in its format. */
export const answerIn: Readonly<Record<Language, (reply: Reply) => object>> = {
  anthropic: ({ text, calls = [] }) => ({
    type: 'message',
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'hm', signature: 's' },
      ...(text === '' ? [] : [{ type: 'text', text }]),
      ...calls.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input })),
    ],
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    usage: { input_tokens: 6, cache_creation_input_tokens: 1, cache_read_input_tokens: 3, output_tokens: 5 },
  }),
  openai: ({ text, calls = [] }) => ({
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
        message: {
          role: 'assistant',
          content: text === '' ? null : text,
          ...(calls.length > 0 && {
            tool_calls: calls.map(({ id, name, input }) => ({
              id,
              type: 'function',
              function: { name, arguments: JSON.stringify(input) },
            })),
          }),
        },
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, prompt_tokens_details: { cached_tokens: 3 } },
  }),
  gemini: ({ text, calls = [] }) => ({
    candidates: [
      {
        finishReason: 'STOP',
        content: {
          role: 'model',
          parts: [
            { text: 'hm', thought: true },
            ...(text === '' ? [] : [{ text }]),
            ...calls.map(({ id, name, input, signature }) => ({
              functionCall: { id, name, args: input },
              ...(signature && { thoughtSignature: signature }),
            })),
          ],
        },
      },
    ],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 4, thoughtsTokenCount: 1, totalTokenCount: 15 },
  }),
  ollama: ({ text, calls = [] }) => ({
    model: 'm',
    message: {
      role: 'assistant',
      content: text,
      ...(calls.length > 0 && {
        tool_calls: calls.map(({ id, name, input }) => ({ id, function: { name, arguments: input } })),
      }),
    },
    done: true,
    done_reason: 'stop',
    prompt_eval_count: 10,
    eval_count: 5,
  }),
}
