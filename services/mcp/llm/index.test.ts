/** The endpoints for chats with language models. */
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Json } from '../../mcp-protocol/json.ts'
import { type ProviderDouble, startProviderDouble } from '../../providers/testing/double.ts'
import type { Language } from '../../providers/testing/languages.ts'
import { ApiError } from '../api/errors.ts'
import type { LlmSettings } from '../configuration/types.ts'
import { anyone } from '../core/caller.ts'
import { llmRoutes } from './index.ts'

const languages: readonly Language[] = ['anthropic', 'openai', 'gemini', 'ollama']
let double: ProviderDouble
beforeAll(async () => {
  double = await startProviderDouble({
    key: 'k',
    // A model that calls a tool, and then reports the tool's result.
    reply: ({ exchanged }) => {
      const result = exchanged.findLast(({ kind }) => kind === 'result')
      if (result?.kind === 'result') return { text: `There are ${result.text}.` }
      return { text: 'I look.', calls: [{ id: 'call-1', name: 'count_rows', input: { table: 'orders' } }] }
    },
  })
})
afterAll(() => double.stop())
beforeEach(() => {
  double.seen.length = 0
})

const settings = (provider: Language, more: Partial<LlmSettings> = {}): LlmSettings => ({
  provider,
  model: 'small-1',
  apiKey: 'k',
  baseUrl: double.url,
  maximumTokens: 500,
  temperature: undefined,
  timeoutMs: 2_000,
  ...more,
})

async function sendLlm(llm: readonly LlmSettings[], target: string, body: unknown = null) {
  const [path, query] = target.split('?')
  const route = llmRoutes(llm).find(one => one.path === path)
  const request = {
    caller: anyone,
    query: new URLSearchParams(query),
    parameters: {},
    signal: new AbortController().signal,
  }
  // JSON.parse returns only JSON values.
  return route?.answer({ ...request, body: JSON.parse(JSON.stringify(body)) as Json })
}

const tools = [
  {
    name: 'count_rows',
    description: 'Counts rows',
    inputSchema: { type: 'object', properties: { table: { type: 'string' } } },
  },
]

test('lists the providers; the first is the default', async () => {
  expect(await sendLlm([settings('gemini'), settings('ollama', { model: undefined })], '/api/llm/providers')).toEqual({
    status: 200,
    body: {
      providers: [
        { name: 'gemini', display: 'Google Gemini', isDefault: true },
        { name: 'ollama', display: 'Ollama', isDefault: false },
      ],
      defaultModel: 'small-1',
    },
  })
  expect(await sendLlm([], '/api/llm/providers')).toEqual({ status: 200, body: { providers: [], defaultModel: '' } })
})

describe.each(languages)('%s', provider => {
  test("a chat continues with a tool's result", async () => {
    const messages: object[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'How many orders are there?', cache_control: { type: 'ephemeral' } },
    ]
    const first = await sendLlm([settings(provider)], '/api/llm/chat', { messages, tools })
    const content = [
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 'call-1', name: 'count_rows', input: { table: 'orders' } },
    ]
    expect(first).toMatchObject({
      status: 200,
      body: {
        content,
        stop_reason: 'tool_use',
        token_usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
      },
    })
    const result = { type: 'tool_result', tool_use_id: 'call-1', content: [{ type: 'text', text: '42' }] }
    const completeRequest = {
      messages: [...messages, { role: 'assistant', content }, { role: 'user', content: [result] }],
      tools,
      provider,
    }
    expect(await sendLlm([settings(provider)], '/api/llm/chat', completeRequest)).toMatchObject({
      body: { content: [{ type: 'text', text: 'There are 42.' }], stop_reason: 'end_turn' },
    })
    expect(double.seen.at(-1)?.understood).toMatchObject({ system: 'Be brief.', maximumTokens: 500 })
  })

  test('sends the configured temperature, and none by default', async () => {
    const body = { messages: [{ role: 'user', content: 'hello' }], provider }
    await sendLlm([settings(provider, { temperature: 0.25 })], '/api/llm/chat', body)
    expect(double.seen.at(-1)?.understood?.temperature).toBe(0.25)
    await sendLlm([settings(provider)], '/api/llm/chat', body)
    expect(double.seen.at(-1)?.understood?.temperature).toBeUndefined()
  })

  test('lists the models', async () => {
    const answer = await sendLlm([settings(provider)], `/api/llm/models?provider=${provider}`)
    expect(answer).toMatchObject({ status: 200, body: { models: [{ name: 'small-1' }] } })
  })
})

test('a request can choose another model and provider than the defaults', async () => {
  const body = { messages: [{ role: 'user', content: 'hi' }], provider: 'ollama', model: 'large-2' }
  await sendLlm([settings('openai'), settings('ollama')], '/api/llm/chat', body)
  expect(double.seen[0]).toMatchObject({ path: '/api/chat', body: { model: 'large-2' } })
})

const hi = { messages: [{ role: 'user', content: 'hi' }] }
test.each([
  ['/api/llm/models', null, 'provider: is required'],
  ['/api/llm/models?provider=voyage', null, 'provider: "voyage" is not configured; configured: openai'],
  ['/api/llm/chat', { ...hi, provider: 'eliza' }, 'provider: "eliza" is not configured; configured: openai'],
  ['/api/llm/chat', hi, 'model: is required: none is configured for openai'],
  ['/api/llm/chat', {}, 'messages: must be given'],
  ['/api/llm/chat', { messages: [] }, 'messages: must have at least 1 entries'],
  [
    '/api/llm/chat',
    { messages: [{ role: 'robot', content: 'x' }] },
    'messages.0.role: must be one of "user", "assistant", "system"',
  ],
  [
    '/api/llm/chat',
    { ...hi, tools: [{ name: 'no spaces please' }] },
    'tools.0.name: must be 1 to 128 letters, digits, underscores, dots or hyphens',
  ],
])('%s refuses %j with the field and the rule', async (target, body, message) => {
  const refused = sendLlm([settings('openai', { model: undefined })], target, body)
  await expect(refused).rejects.toMatchObject({ status: 400, message })
})

test.each([
  [{ status: 429, headers: { 'retry-after': '60' } }, 429, 'openai limits the request rate (HTTP 429): trouble'],
  [{ status: 400 }, 400, 'openai refused the request (HTTP 400): trouble'],
  [{ status: 403 }, 502, 'openai refused the API key (HTTP 403)'],
  [{ status: 200, body: '{}' }, 502, 'openai sent an unexpected response: choices'],
  ['hang' as const, 504, 'openai did not answer within 200 ms'],
])('if a provider answers %j, the status is %i', async (failure, status, message) => {
  double.failures.push(failure)
  const answer = sendLlm([settings('openai', { timeoutMs: 200 })], '/api/llm/chat', hi)
  await expect(answer).rejects.toMatchObject({ status, message: expect.stringContaining(message) })
})

test('without a configured model the chat returns an error', async () => {
  await expect(sendLlm([], '/api/llm/chat', hi)).rejects.toMatchObject({
    status: 503,
    message: 'no language model is configured',
  })
})

test('answers any JSON, or refuses it and names the field', async () => {
  const like = fc.record({
    messages: fc.array(fc.record({ role: fc.constantFrom('user', 'assistant', 'x'), content: fc.jsonValue() }), {
      maxLength: 3,
    }),
    tools: fc.jsonValue(),
  })
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.jsonValue(), like), async body => {
      const outcome = await sendLlm([settings('ollama')], '/api/llm/chat', body).catch((error: unknown) => error)
      if (outcome instanceof ApiError)
        expect(outcome).toMatchObject({ status: 400, message: expect.stringMatching(/^[\w.]+: /) })
      else expect(outcome).toMatchObject({ status: 200 })
    }),
  )
})
