/** Streamed responses, from each provider's documentation: the pieces in the order in which the provider sends them. */
import { answerIn, type Language, type Reply } from './languages.ts'

const event = (value: object, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(value)}\n\n`

/** Splits a text into pieces of a few characters. */
const split = (text: string): readonly string[] => text.match(/[\s\S]{1,4}/g) ?? []

function anthropic({ text, calls = [] }: Reply): readonly string[] {
  const named = (value: { readonly type: string; readonly [key: string]: unknown }) => event(value, value.type)
  const delta = (index: number, one: object) => named({ type: 'content_block_delta', index, delta: one })
  const block = (index: number, begun: object, deltas: readonly object[]) => [
    named({ type: 'content_block_start', index, content_block: begun }),
    ...deltas.map(one => delta(index, one)),
    named({ type: 'content_block_stop', index }),
  ]
  const blocks = [
    { begun: { type: 'thinking', thinking: '' }, deltas: [{ type: 'thinking_delta', thinking: 'hm' }] },
    ...(text === ''
      ? []
      : [{ begun: { type: 'text', text: '' }, deltas: split(text).map(one => ({ type: 'text_delta', text: one })) }]),
    ...calls.map(({ id, name, input }) => ({
      begun: { type: 'tool_use', id, name, input: {} },
      deltas: split(JSON.stringify(input)).map(one => ({ type: 'input_json_delta', partial_json: one })),
    })),
  ]
  const usage = { input_tokens: 6, cache_creation_input_tokens: 1, cache_read_input_tokens: 3, output_tokens: 1 }
  return [
    named({ type: 'message_start', message: { content: [], usage } }),
    named({ type: 'ping' }),
    ...blocks.flatMap(({ begun, deltas }, index) => block(index, begun, deltas)),
    named({
      type: 'message_delta',
      delta: { stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn' },
      usage: { output_tokens: 5 },
    }),
    named({ type: 'message_stop' }),
  ]
}

function openai({ text, calls = [] }: Reply): readonly string[] {
  const choice = (delta: object, finish_reason: string | null = null) =>
    event({ object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })
  return [
    choice({ role: 'assistant', content: '' }),
    ...split(text).map(content => choice({ content })),
    ...calls.flatMap(({ id, name, input }, index) => [
      choice({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
      ...split(JSON.stringify(input)).map(one => choice({ tool_calls: [{ index, function: { arguments: one } }] })),
    ]),
    choice({}, calls.length > 0 ? 'tool_calls' : 'stop'),
    event({
      choices: [],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, prompt_tokens_details: { cached_tokens: 3 } },
    }),
    'data: [DONE]\n\n',
  ]
}

function gemini({ text, calls = [] }: Reply): readonly string[] {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 4, thoughtsTokenCount: 1 }
  const piece = (parts: readonly object[], more: object = {}) =>
    event({ candidates: [{ content: { role: 'model', parts }, ...more }], usageMetadata })
  return [
    piece([{ text: 'hm', thought: true }]),
    ...split(text).map(one => piece([{ text: one }])),
    ...calls.map(({ id, name, input, signature }) =>
      piece([{ functionCall: { id, name, args: input }, ...(signature && { thoughtSignature: signature }) }]),
    ),
    piece([{ text: '' }], { finishReason: 'STOP' }),
  ]
}

function ollama({ text, calls = [] }: Reply): readonly string[] {
  const line = (message: object, more: object = { done: false }) =>
    `${JSON.stringify({ model: 'm', message: { role: 'assistant', ...message }, ...more })}\n`
  return [
    ...split(text).map(content => line({ content })),
    ...calls.map(({ id, name, input }) =>
      line({ content: '', tool_calls: [{ id, function: { name, arguments: input } }] }),
    ),
    line({ content: '' }, { done: true, done_reason: 'stop', prompt_eval_count: 10, eval_count: 5 }),
  ]
}

export const piecesIn: Readonly<Record<Language, (reply: Reply) => readonly string[]>> = {
  anthropic,
  openai,
  gemini,
  ollama,
}

/** A failure after the response has started. */
export const failureIn: Readonly<Record<Language, string>> = {
  anthropic: event({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'error'),
  openai: event({ error: { message: 'Overloaded', type: 'server_error' } }),
  gemini: event({ error: { code: 503, message: 'Overloaded', status: 'UNAVAILABLE' } }),
  ollama: `${JSON.stringify({ error: 'Overloaded' })}\n`,
}

export const bodyOrEvents = (language: Language, reply: Reply, isStreamed: boolean): object | readonly string[] =>
  isStreamed ? piecesIn[language](reply) : answerIn[language](reply)
