/** Tool calls and results survive the conversion to a provider's format and back. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { answerIn, type Exchanged, type Language, understand } from '../testing/languages.ts'
import type { ChatBlock, ChatMessage, ChatRequest, JsonMap } from '../types.ts'
import { anthropic } from './anthropic.ts'
import { gemini } from './gemini.ts'
import { ollama } from './ollama.ts'
import { openAi } from './openai.ts'
import type { ChatWire } from './wire.ts'

const wires: Readonly<Record<Language, ChatWire>> = { anthropic, gemini, ollama, openai: openAi(true) }
const languages: readonly Language[] = ['anthropic', 'openai', 'gemini', 'ollama']

const word = fc.stringMatching(/^[a-z][a-z_]{0,11}$/)
/** JSON values after a round trip, which does not keep -0. */
const input: fc.Arbitrary<JsonMap> = fc
  .dictionary(word, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  .map(one => JSON.parse(JSON.stringify(one).replaceAll('__proto__', 'proto')))
const nonEmptyText = fc.string({ minLength: 1, maxLength: 40 }).filter(text => text.trim() !== '')

type Turn = {
  text: string
  calls: { name: string; input: JsonMap; result: string; isError: boolean; signature: string | undefined }[]
  after: string
}
const turn: fc.Arbitrary<Turn> = fc.record({
  text: fc.option(nonEmptyText, { nil: '' }),
  calls: fc.array(
    fc.record({
      name: word,
      input,
      result: fc.string(),
      isError: fc.boolean(),
      signature: fc.option(word, { nil: undefined }),
    }),
    { maxLength: 3 },
  ),
  after: fc.option(nonEmptyText, { nil: '' }),
})

const text = (one: string): ChatBlock[] => (one === '' ? [] : [{ type: 'text', text: one }])

/** A typical chat: a question, the model's calls, and the calls' results, with or without further text. */
function messagesOf(turns: readonly Turn[]): ChatMessage[] {
  let count = 0
  return turns.flatMap(({ text: before, calls, after }) => {
    const named = calls.map(call => ({ ...call, id: `call_${count++}` }))
    const withCalls: ChatMessage = {
      role: 'assistant',
      content: [
        ...text(before),
        ...named.map(({ id, name, input, signature }): ChatBlock => ({ type: 'tool_use', id, name, input, signature })),
      ],
    }
    const results: ChatMessage = {
      role: 'user',
      content: [
        ...named.map(
          ({ id, result, isError }): ChatBlock => ({
            type: 'tool_result',
            tool_use_id: id,
            content: result,
            is_error: isError,
          }),
        ),
        ...text(after),
      ],
    }
    return [withCalls, results].filter(({ content }) => content.length > 0)
  })
}

/** The calls and results of a chat. If a format cannot mark errors, `sayable` changes the results. */
const exchangedIn = (messages: readonly ChatMessage[]): Exchanged[] => {
  const names = new Map<string, string>()
  return messages.flatMap(({ content }) =>
    content.flatMap((block): Exchanged[] => {
      if (block.type === 'text') return []
      if (block.type === 'tool_result') {
        const { tool_use_id: id, content: resultText, is_error = false } = block
        return [{ kind: 'result', id, name: names.get(id) ?? '', text: resultText, error: is_error }]
      }
      names.set(block.id, block.name)
      return [{ kind: 'call', id: block.id, name: block.name, input: block.input, signature: block.signature }]
    }),
  )
}

/** The call or result as the format can express it. */
function sayable(one: Exchanged, language: Language): Exchanged {
  if (one.kind === 'call')
    return language === 'gemini' ? one : { kind: 'call', id: one.id, name: one.name, input: one.input }
  const { id, name = '', text: content, error = false } = one
  if (language === 'anthropic') return { kind: 'result', id, text: content, error }
  if (language === 'gemini') return { kind: 'result', id, name, text: content, error }
  const resultText = error ? `Error: ${content}` : content
  return language === 'openai'
    ? { kind: 'result', id, text: resultText }
    : { kind: 'result', id, name, text: resultText }
}

const system: ChatMessage = { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] }
const tools = [
  {
    name: 'query_database',
    description: 'Runs SQL',
    inputSchema: { type: 'object', properties: { query: { type: 'string' } } },
  },
]
const request = (messages: readonly ChatMessage[]): ChatRequest => ({ model: 'm', messages, tools, maximumTokens: 77 })

/** The request body after JSON serialization. */
const sent = (wire: ChatWire, messages: readonly ChatMessage[]) =>
  JSON.parse(JSON.stringify(wire.chat(request(messages), () => 'new').body))

describe.each(languages)('%s', language => {
  const wire = wires[language]
  const read = (body: object) => wire.chat(request([]), () => 'new').answer.parse(body)

  test('receives every call, and the text next to it', () => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 5 }), turns => {
        const messages = messagesOf(turns)
        const understood = understand[language](sent(wire, [system, ...messages]))
        expect(understood.exchanged).toEqual(exchangedIn(messages).map(one => sayable(one, language)))
        expect(understood.texts).toEqual(
          messages.flatMap(({ content }) => content.flatMap(block => (block.type === 'text' ? [block.text] : []))),
        )
        expect(understood).toMatchObject({
          system: 'Be brief.',
          maximumTokens: 77,
          tools: [{ name: 'query_database', schema: tools[0]?.inputSchema }],
        })
      }),
    )
  })

  test('sends every call and result in order, with ids, names, arguments and texts', () => {
    const call = fc.record({ id: word, name: word, input })
    fc.assert(
      fc.property(fc.option(nonEmptyText, { nil: '' }), fc.array(call, { maxLength: 3 }), (words, calls) => {
        const answered = read(answerIn[language]({ text: words, calls }))
        expect(answered.content).toEqual([...text(words), ...calls.map(one => ({ type: 'tool_use', ...one }))])
        expect(answered.stop_reason).toBe(calls.length > 0 ? 'tool_use' : 'end_turn')
        expect(answered.token_usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 })
      }),
    )
  })

  test('detects other responses', () => {
    fc.assert(
      fc.property(fc.jsonValue(), body => {
        const parsed = wire.chat(request([]), () => 'new').answer.safeParse(body)
        expect(parsed.success && parsed.data.content.length > 0).toBe(false)
      }),
    )
  })
})

test('sends a Gemini signature back with its call', () => {
  const reply = { text: '', calls: [{ id: 'c1', name: 'f', input: {}, signature: 'c2ln' }] }
  const answered = wires.gemini.chat(request([]), () => 'new').answer.parse(answerIn.gemini(reply))
  const body = sent(wires.gemini, [{ role: 'assistant', content: answered.content }])
  expect(understand.gemini(body).exchanged).toEqual([
    { kind: 'call', id: 'c1', name: 'f', input: {}, signature: 'c2ln' },
  ])
})

test('gives an id to a call without an id', () => {
  const answered = wires.gemini
    .chat(request([]), () => 'made')
    .answer.parse({ candidates: [{ finishReason: 'STOP', content: { parts: [{ functionCall: { name: 'f' } }] } }] })
  expect(answered.content).toEqual([{ type: 'tool_use', id: 'made', name: 'f', input: {} }])
})

test('treats a prompt that Gemini blocks as a refusal, not as a malformed response', () => {
  const answered = wires.gemini
    .chat(request([]), () => 'new')
    .answer.parse({ promptFeedback: { blockReason: 'SAFETY' } })
  expect(answered).toEqual({ content: [], stop_reason: 'refusal' })
})

test('reports arguments that are not JSON as malformed', () => {
  const calls = [{ id: 'a', function: { name: 'f', arguments: '{"query":' } }]
  const body = { choices: [{ finish_reason: 'tool_calls', message: { content: null, tool_calls: calls } }] }
  expect(wires.openai.chat(request([]), () => 'new').answer.safeParse(body).error?.message).toContain(
    'must be a JSON object',
  )
})

test('Anthropic receives results before the text next to them', () => {
  const content: ChatBlock[] = [...text('Look:'), { type: 'tool_result', tool_use_id: 'a', content: '1' }]
  const [message] = sent(wires.anthropic, [{ role: 'user', content }]).messages
  expect(message.content.map(({ type }: ChatBlock) => type)).toEqual(['tool_result', 'text'])
})

test('Anthropic receives at most four cache breakpoints, the last ones', () => {
  const messages = Array.from(
    { length: 6 },
    (_, index): ChatMessage => ({ role: 'user', content: [{ type: 'text', text: `${index}` }], cache: true }),
  )
  const { messages: all } = sent(wires.anthropic, messages)
  const isCached = all.map((message: { content: object[] }) => 'cache_control' in (message.content[0] ?? {}))
  expect(isCached).toEqual([false, false, true, true, true, true])
})

test('only OpenAI itself receives the limit by its new name', () => {
  expect(openAi(true).chat(request([]), () => '').body).toHaveProperty('max_completion_tokens', 77)
  expect(openAi(false).chat(request([]), () => '').body).toHaveProperty('max_tokens', 77)
})
