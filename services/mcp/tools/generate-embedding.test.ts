/** generate_embedding: complete vectors if they fit, and the message if they do not fit. */
import { encode } from 'gpt-tokenizer'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createEmbedder } from '../../providers/embedding.ts'
import { type ProviderDouble, startProviderDouble } from '../../providers/testing/double.ts'
import { answerOf } from '../catalogue/testing/server.ts'
import { callTool } from '../testing/calls.ts'
import { generateEmbedding } from './generate-embedding.ts'

const limits = { resultTokens: 10_000, resultBytes: 1_000_000, requestBytes: 1_000_000 }
let double: ProviderDouble
beforeAll(async () => {
  double = await startProviderDouble({
    embed: text => Array.from({ length: Number(text) }, (_, at) => Math.sin(at) / 20),
  })
})
afterAll(() => double.stop())

const tool = () =>
  generateEmbedding(
    createEmbedder({ provider: 'ollama', model: 'm', apiKey: undefined, baseUrl: double.url, timeoutMs: 2_000 }),
    limits,
  )
const embed = async (text: string, one = tool()) => answerOf(await callTool(one, { text }))

test('returns the vector, with its model and dimensions', async () => {
  expect(await embed('4')).toEqual({
    isError: false,
    text: 'Provider: ollama\nModel: m\nDimensions: 4\nText Length: 1\n\n[0,0.0420735,0.0454649,0.007056]',
  })
})

test.each([384, 1_024])('returns all of %i dimensions', async dimensions => {
  const { text } = await embed(`${dimensions}`)
  expect(JSON.parse(text.slice(text.indexOf('[')))).toHaveLength(dimensions)
  expect(encode(text).length).toBeLessThanOrEqual(limits.resultTokens)
})

test('reports how much of a large vector it shows', async () => {
  const { text } = await embed('4096')
  expect(encode(text).length).toBeLessThanOrEqual(limits.resultTokens)
  const [, shown] = /\nThe first (\d+) of 4096 numbers/.exec(text) ?? []
  expect(JSON.parse(text.slice(text.indexOf('['), text.indexOf(']') + 1))).toHaveLength(Number(shown))
})

test('fails without a text, and if the provider fails', async () => {
  expect(await embed(' ')).toEqual({ isError: true, text: 'text must not be empty' })
  double.failures.push({ status: 403 })
  expect(await embed('1')).toEqual({
    isError: true,
    text: 'The text could not be embedded: ollama refused the API key (HTTP 403).',
  })
})

test('is not listed without a provider, and reports the missing provider when it is called', async () => {
  const none = generateEmbedding(undefined, limits)
  expect(none.isHidden).toBe(true)
  expect(tool().isHidden).toBeUndefined()
  expect(await embed('1', none)).toEqual({
    isError: true,
    text: 'No embedding provider is configured: embeddings need one.',
  })
})
