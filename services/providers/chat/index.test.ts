/** Chat providers over HTTP. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ProviderDouble, startProviderDouble } from '../testing/double.ts'
import type { Language } from '../testing/languages.ts'
import { createChatProvider } from './index.ts'

const languages: readonly Language[] = ['anthropic', 'openai', 'gemini', 'ollama']
const never = new AbortController().signal
let double: ProviderDouble

beforeAll(async () => {
  double = await startProviderDouble({
    key: 'k',
    reply: ({ texts }) => ({
      text: `You said ${texts.join()}`,
      calls: [{ id: 'c', name: 'query_database', input: { query: 'select 1' } }],
    }),
  })
})
afterAll(() => double.stop())

describe.each(languages)('%s', provider => {
  const chat = () => createChatProvider({ provider, apiKey: 'k', baseUrl: double.url, timeoutMs: 5_000 })

  test('answers a chat', async () => {
    const messages = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello' }] }]
    const answer = await chat().chat({ model: 'small-1', messages, tools: [], maximumTokens: 100 }, never)
    expect(answer).toMatchObject({
      content: [
        { type: 'text', text: 'You said hello' },
        { type: 'tool_use', id: 'c', name: 'query_database', input: { query: 'select 1' } },
      ],
      stop_reason: 'tool_use',
    })
  })

  const request = {
    model: 'small-1',
    messages: [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hello, ☃' }] }],
    tools: [],
    maximumTokens: 100,
  }

  test('streams the texts of a response, and ends with the complete response', async () => {
    const events = []
    for await (const event of chat().stream(request, never)) events.push(event)
    const texts = events.flatMap(event => (event.type === 'text' ? [event.text] : []))
    expect(texts.length).toBeGreaterThan(2)
    expect(texts.join('')).toBe('You said hello, ☃')
    expect(events.at(-1)).toEqual({ type: 'end', answer: await chat().chat(request, never) })
  })

  test.each([
    ['fail midway', 'limited'],
    ['end midway', 'unreachable'],
    ['hang midway', 'timeout'],
  ] as const)('reports the failure of a response that %s', async (failure, kind) => {
    double.failures.push(failure)
    const limited = createChatProvider({ provider, apiKey: 'k', baseUrl: double.url, timeoutMs: 200 })
    const read = async () => {
      for await (const _ of limited.stream(request, never));
    }
    await expect(read()).rejects.toMatchObject({ name: 'ProviderError', kind })
  })

  test('retries the start of a stream if the provider is busy', async () => {
    double.failures.push({ status: 503 })
    const events = []
    for await (const event of chat().stream(request, never)) events.push(event.type)
    expect(events.at(-1)).toBe('end')
  })

  test('ends the request of an aborted stream, and throws the reason', async () => {
    double.failures.push('hang midway')
    const controller = new AbortController()
    const reading = (async () => {
      for await (const _ of chat().stream(request, controller.signal));
    })()
    setTimeout(() => controller.abort(new Error('enough')), 30)
    await expect(reading).rejects.toThrow('enough')
  })

  test('lists the chat models', async () => {
    expect((await chat().models(never)).map(({ name }) => name)).toEqual(['small-1'])
  })
})
