/** Nothing that was called, and nothing that came of it, is lost on the way to a provider or back. */
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
/** JSON as it comes out of JSON: no -0. */
const input: fc.Arbitrary<JsonMap> = fc
  .dictionary(word, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  .map(one => JSON.parse(JSON.stringify(one).replaceAll('__proto__', 'proto')))
const said = fc.string({ minLength: 1, maxLength: 40 }).filter(text => text.trim() !== '')

type Turn = {
  text: string
  calls: { name: string; input: JsonMap; result: string; isError: boolean; signature: string | undefined }[]
  after: string
}
const turn: fc.Arbitrary<Turn> = fc.record({
  text: fc.option(said, { nil: '' }),
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
  after: fc.option(said, { nil: '' }),
})

const text = (one: string): ChatBlock[] => (one === '' ? [] : [{ type: 'text', text: one }])

/** A chat as it goes: a question, what the model calls, what comes of it with or without a further word. */
function messagesOf(turns: readonly Turn[]): ChatMessage[] {
  let count = 0
  return turns.flatMap(({ text: before, calls, after }) => {
    const named = calls.map(call => ({ ...call, id: `call_${count++}` }))
    const asked: ChatMessage = {
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
    return [asked, results].filter(({ content }) => content.length > 0)
  })
}

/** What was exchanged in a chat; results as a provider reads them whose language knows no errors. */
const exchangedIn = (messages: readonly ChatMessage[]): Exchanged[] => {
  const names = new Map<string, string>()
  return messages.flatMap(({ content }) =>
    content.flatMap((block): Exchanged[] => {
      if (block.type === 'text') return []
      if (block.type === 'tool_result') {
        const { tool_use_id: id, content: said, is_error = false } = block
        return [{ kind: 'result', id, name: names.get(id) ?? '', text: said, error: is_error }]
      }
      names.set(block.id, block.name)
      return [{ kind: 'call', id: block.id, name: block.name, input: block.input, signature: block.signature }]
    }),
  )
}

/** As far as a language can say it. */
function sayable(one: Exchanged, language: Language): Exchanged {
  if (one.kind === 'call')
    return language === 'gemini' ? one : { kind: 'call', id: one.id, name: one.name, input: one.input }
  const { id, name = '', text: said, error = false } = one
  if (language === 'anthropic') return { kind: 'result', id, text: said, error }
  if (language === 'gemini') return { kind: 'result', id, name, text: said, error }
  const whole = error ? `Error: ${said}` : said
  return language === 'openai' ? { kind: 'result', id, text: whole } : { kind: 'result', id, name, text: whole }
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

/** What goes over the network: JSON. */
const sent = (wire: ChatWire, messages: readonly ChatMessage[]) =>
  JSON.parse(JSON.stringify(wire.chat(request(messages), () => 'new').body))

describe.each(languages)('%s', language => {
  const wire = wires[language]
  const read = (body: object) => wire.chat(request([]), () => 'new').answer.parse(body)

  test('is asked with every call and every result, in order, with their ids, names, arguments and texts', () => {
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

  test('is understood with every call, and with what it says beside', () => {
    const call = fc.record({ id: word, name: word, input })
    fc.assert(
      fc.property(fc.option(said, { nil: '' }), fc.array(call, { maxLength: 3 }), (words, calls) => {
        const answered = read(answerIn[language]({ text: words, calls }))
        expect(answered.content).toEqual([...text(words), ...calls.map(one => ({ type: 'tool_use', ...one }))])
        expect(answered.stop_reason).toBe(calls.length > 0 ? 'tool_use' : 'end_turn')
        expect(answered.token_usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 })
      }),
    )
  })

  test('that answers something else is found out', () => {
    fc.assert(
      fc.property(fc.jsonValue(), body => {
        const parsed = wire.chat(request([]), () => 'new').answer.safeParse(body)
        expect(parsed.success && parsed.data.content.length > 0).toBe(false)
      }),
    )
  })
})

test('a signature of Gemini goes back with its call', () => {
  const reply = { text: '', calls: [{ id: 'c1', name: 'f', input: {}, signature: 'c2ln' }] }
  const answered = wires.gemini.chat(request([]), () => 'new').answer.parse(answerIn.gemini(reply))
  const body = sent(wires.gemini, [{ role: 'assistant', content: answered.content }])
  expect(understand.gemini(body).exchanged).toEqual([
    { kind: 'call', id: 'c1', name: 'f', input: {}, signature: 'c2ln' },
  ])
})

test('a call that its provider leaves without an id gets one', () => {
  const answered = wires.gemini
    .chat(request([]), () => 'made')
    .answer.parse({ candidates: [{ finishReason: 'STOP', content: { parts: [{ functionCall: { name: 'f' } }] } }] })
  expect(answered.content).toEqual([{ type: 'tool_use', id: 'made', name: 'f', input: {} }])
})

test('a prompt that Gemini blocks is a refusal, not a malformed answer', () => {
  const answered = wires.gemini
    .chat(request([]), () => 'new')
    .answer.parse({ promptFeedback: { blockReason: 'SAFETY' } })
  expect(answered).toEqual({ content: [], stop_reason: 'refusal' })
})

test('arguments that are no JSON are malformed', () => {
  const calls = [{ id: 'a', function: { name: 'f', arguments: '{"query":' } }]
  const body = { choices: [{ finish_reason: 'tool_calls', message: { content: null, tool_calls: calls } }] }
  expect(wires.openai.chat(request([]), () => 'new').answer.safeParse(body).error?.message).toContain(
    'must be a JSON object',
  )
})

test('Anthropic is told of results before what is said beside them', () => {
  const content: ChatBlock[] = [...text('Look:'), { type: 'tool_result', tool_use_id: 'a', content: '1' }]
  const [message] = sent(wires.anthropic, [{ role: 'user', content }]).messages
  expect(message.content.map(({ type }: ChatBlock) => type)).toEqual(['tool_result', 'text'])
})

test('Anthropic is told of four cache marks at most, the last ones', () => {
  const messages = Array.from(
    { length: 6 },
    (_, index): ChatMessage => ({ role: 'user', content: [{ type: 'text', text: `${index}` }], cache: true }),
  )
  const { messages: all } = sent(wires.anthropic, messages)
  const isMarked = all.map((message: { content: object[] }) => 'cache_control' in (message.content[0] ?? {}))
  expect(isMarked).toEqual([false, false, true, true, true, true])
})

test('only OpenAI itself is told the limit by its new name', () => {
  expect(openAi(true).chat(request([]), () => '').body).toHaveProperty('max_completion_tokens', 77)
  expect(openAi(false).chat(request([]), () => '').body).toHaveProperty('max_tokens', 77)
})
