/** generate_embedding: whole vectors where they fit, and what is said where they do not. */
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
const ask = async (text: string, one = tool()) => answerOf(await callTool(one, { text }))

test('gives the vector, and what it is of', async () => {
  expect(await ask('4')).toEqual({
    isError: false,
    text: 'Provider: ollama\nModel: m\nDimensions: 4\nText Length: 1\n\n[0,0.0420735,0.0454649,0.007056]',
  })
})

test.each([384, 1_024])('gives all of %i dimensions', async dimensions => {
  const { text } = await ask(`${dimensions}`)
  expect(JSON.parse(text.slice(text.indexOf('[')))).toHaveLength(dimensions)
  expect(encode(text).length).toBeLessThanOrEqual(limits.resultTokens)
})

test('says how much of a large one it shows', async () => {
  const { text } = await ask('4096')
  expect(encode(text).length).toBeLessThanOrEqual(limits.resultTokens)
  const [, shown] = /\nThe first (\d+) of 4096 numbers/.exec(text) ?? []
  expect(JSON.parse(text.slice(text.indexOf('['), text.indexOf(']') + 1))).toHaveLength(Number(shown))
})

test('is refused without a text, and where the provider fails', async () => {
  expect(await ask(' ')).toEqual({ isError: true, text: 'text must not be empty' })
  double.troubles.push({ status: 403 })
  expect(await ask('1')).toEqual({
    isError: true,
    text: 'The text could not be embedded: ollama refused the API key (HTTP 403).',
  })
})

test('is not listed without a provider, and says so when it is called', async () => {
  const none = generateEmbedding(undefined, limits)
  expect(none.isHidden).toBe(true)
  expect(tool().isHidden).toBeUndefined()
  expect(await ask('1', none)).toEqual({
    isError: true,
    text: 'No embedding provider is configured: embeddings need one.',
  })
})
