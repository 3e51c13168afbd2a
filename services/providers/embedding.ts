/**
 * Embedding models over HTTP: Voyage, OpenAI (and compatible servers), Ollama and Gemini. Sends texts in batches within
 * the provider's limits. The result has one vector for each text. All vectors have the same length and finite numbers.
 */
import { z } from 'zod'
import { bearer, type Endpoint, type EndpointSettings, endpointOf, type Protocol } from './endpoint.ts'
import { ProviderError } from './errors.ts'
import { exchange, type Question } from './exchange.ts'
import type { Embedder } from './types.ts'

type EmbeddingProvider = 'voyage' | 'openai' | 'ollama' | 'gemini'
type Purpose = 'query' | 'document'

export type EmbedderSettings = EndpointSettings & { readonly provider: EmbeddingProvider; readonly model: string }

type EmbeddingProtocol = Protocol & {
  readonly batch: BatchLimits
  /** The vectors in `answer` are in the order of the texts. */
  question(
    model: string,
    texts: readonly string[],
    purpose: Purpose,
  ): Pick<Question<Answered>, 'path' | 'body' | 'answer'>
}

type BatchLimits = { readonly texts: number; readonly bytes: number }

type Vector = readonly number[]

/** `tokens`: the number of tokens in the texts, if the provider reports it. */
type Answered = { readonly vectors: readonly Vector[]; readonly tokens: number | undefined }

/** pgvector's maximum. */
const maximumDimensions = 16_000
/** A number needs at most 25 bytes of JSON, without white space. */
const bytesOfVector = 30 * maximumDimensions
const maximumAnswerBytes = 268_435_456

/** A loop, because `every` would box each number. */
export function areFinite(numbers: ArrayLike<unknown>): boolean {
  for (let index = 0; index < numbers.length; index++) if (!Number.isFinite(numbers[index])) return false
  return true
}

/** Checks by hand, because a batch has millions of numbers. */
const vector = z.custom<Vector>(
  value => Array.isArray(value) && value.length <= maximumDimensions && areFinite(value),
  'must be a vector of finite numbers',
)

/** An invalid token count must not invalidate the response. */
const tokenCount = z.int().min(0).optional().catch(undefined)
const usage = z.object({ total_tokens: tokenCount, prompt_tokens: tokenCount }).optional().catch(undefined)
const usageMetadata = z.object({ promptTokenCount: tokenCount }).optional().catch(undefined)

/** OpenAI and compatible servers number their vectors, but do not guarantee their order. */
const numbered = z
  .object({ data: z.array(z.object({ index: z.int().min(0), embedding: vector })), usage })
  .transform(({ data, usage: used }) => ({ data: data.toSorted((one, other) => one.index - other.index), used }))
  .refine(({ data }) => data.every(({ index }, position) => index === position), 'data must have each index once')
  .transform(({ data, used }) => ({
    vectors: data.map(({ embedding }) => embedding),
    tokens: used?.total_tokens ?? used?.prompt_tokens,
  }))

const ofGemini = z
  .object({ embeddings: z.array(z.object({ values: vector })), usageMetadata })
  .transform(({ embeddings, usageMetadata: used }) => ({
    vectors: embeddings.map(({ values }) => values),
    tokens: used?.promptTokenCount,
  }))
const ofOllama = z
  .object({ embeddings: z.array(vector), prompt_eval_count: tokenCount })
  .transform(({ embeddings, prompt_eval_count }) => ({ vectors: embeddings, tokens: prompt_eval_count }))

const geminiPurposes = { query: 'RETRIEVAL_QUERY', document: 'RETRIEVAL_DOCUMENT' }

const modelName = (model: string) => (model.startsWith('models/') ? model : `models/${model}`)

// Each provider's own limits of a batch. A limit in tokens is converted to bytes, with two bytes of text per token. Few
// texts have fewer bytes per token.
const protocols: Readonly<Record<EmbeddingProvider, EmbeddingProtocol>> = {
  openai: {
    provider: 'openai',
    defaultBaseUrl: 'https://api.openai.com/v1',
    keyHeaders: bearer,
    batch: { texts: 2_048, bytes: 600_000 },
    question: (model, texts) => ({
      path: '/embeddings',
      body: { model, input: texts, encoding_format: 'float' },
      answer: numbered,
    }),
  },
  voyage: {
    provider: 'voyage',
    defaultBaseUrl: 'https://api.voyageai.com/v1',
    keyHeaders: bearer,
    batch: { texts: 1_000, bytes: 240_000 },
    question: (model, texts, purpose) => ({
      path: '/embeddings',
      body: { model, input: texts, input_type: purpose },
      answer: numbered,
    }),
  },
  gemini: {
    provider: 'gemini',
    defaultBaseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    keyHeaders: key => ({ 'x-goog-api-key': key }),
    batch: { texts: 100, bytes: 400_000 },
    question: (model, texts, purpose) => ({
      path: `/models/${encodeURIComponent(modelName(model).slice('models/'.length))}:batchEmbedContents`,
      body: {
        requests: texts.map(text => ({
          model: modelName(model),
          content: { parts: [{ text }] },
          taskType: geminiPurposes[purpose],
        })),
      },
      answer: ofGemini,
    }),
  },
  ollama: {
    provider: 'ollama',
    defaultBaseUrl: 'http://127.0.0.1:11434',
    keyHeaders: bearer,
    // Ollama has no limit of its own, but it responds only when the complete batch is ready.
    batch: { texts: 64, bytes: 200_000 },
    question: (model, texts) => ({
      path: '/api/embed',
      body: { model, input: texts },
      answer: ofOllama,
    }),
  },
}

/**
 * Splits texts in order into as few batches as the limits allow. A single text over the limit is its own batch; the
 * provider decides whether to accept it.
 */
export function batches(texts: readonly string[], limits: BatchLimits): readonly (readonly string[])[] {
  const all: string[][] = []
  let current: string[] | undefined
  let bytes = 0
  for (const text of texts) {
    const length = Buffer.byteLength(text)
    if (current === undefined || current.length === limits.texts || bytes + length > limits.bytes) {
      current = []
      all.push(current)
      bytes = 0
    }
    current.push(text)
    bytes += length
  }
  return all
}

function checkVectors(vectors: readonly Vector[], expected: number, { provider }: Endpoint): void {
  const [first] = vectors
  if (vectors.length !== expected) {
    throw new ProviderError('malformed', provider, `sent ${vectors.length} vectors for ${expected} texts`)
  }
  if (first?.length === 0) throw new ProviderError('malformed', provider, 'sent a vector of no numbers')
  if (vectors.some(({ length }) => length !== first?.length)) {
    throw new ProviderError('malformed', provider, 'sent vectors of several lengths')
  }
}

/** @throws ProviderError if the base URL is invalid */
export function createEmbedder(settings: EmbedderSettings): Embedder {
  const { provider, model } = settings
  const protocol = protocols[provider]
  const endpoint = endpointOf(protocol, settings)
  return {
    provider,
    model,
    embed: async (texts, purpose, signal, onTokens) => {
      const vectors: Vector[] = []
      for (const batch of batches(texts, protocol.batch)) {
        const maximumBytes = Math.min(maximumAnswerBytes, batch.length * bytesOfVector + 65_536)
        const question = { ...protocol.question(model, batch, purpose), maximumBytes }
        const answered = await exchange(endpoint, question, signal)
        checkVectors(answered.vectors, batch.length, endpoint)
        onTokens?.(answered.tokens, batch)
        vectors.push(...answered.vectors)
      }
      checkVectors(vectors, texts.length, endpoint)
      return vectors
    },
  }
}
