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

  test('lists models one can chat with', async () => {
    expect((await chat().models(never)).map(({ name }) => name)).toEqual(['small-1'])
  })
})
