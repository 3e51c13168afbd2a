/** Chat with a language model of any provider, with one request and response format. */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { endpointOf } from '../endpoint.ts'
import { ProviderError } from '../errors.ts'
import { checkedAnswer, exchange } from '../exchange.ts'
import { streamPieces } from '../stream.ts'
import type { ChatEvent, ChatProvider, ChatRequest } from '../types.ts'
import { anthropic } from './anthropic.ts'
import { gemini } from './gemini.ts'
import { ollama } from './ollama.ts'
import { openAi } from './openai.ts'
import type { ChatSettings, ChatWire } from './wire.ts'

/** Bytes for the framing of a text, and for thinking beside the text. */
const spareBytes = 1_048_576
/** A streamed piece has a few hundred bytes around each token. */
const bytesPerToken = { whole: 64, stream: 1_024 }
const mostBytes = 16_777_216
const listBytes = 4_194_304

/**
 * Limits a response to the bytes that its tokens need, because responses of many requests are in memory at the same
 * time.
 */
const answerBytes = ({ maximumTokens }: ChatRequest, kind: keyof typeof bytesPerToken): number =>
  Math.min(mostBytes, spareBytes + bytesPerToken[kind] * maximumTokens)

function wireOf({ provider, baseUrl }: ChatSettings): ChatWire {
  switch (provider) {
    case 'anthropic':
      return anthropic
    case 'gemini':
      return gemini
    case 'ollama':
      return ollama
    case 'openai':
      return openAi(baseUrl === undefined || URL.parse(baseUrl)?.hostname === 'api.openai.com')
  }
}

/** @throws ProviderError if a piece is malformed */
function inLanguage<Result>(read: () => Result, provider: string): Result {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error
    const [issue] = error.issues
    const path = issue?.path.join('.') || 'a piece'
    throw new ProviderError('malformed', provider, `sent an unexpected piece: ${path}: ${issue?.message ?? 'invalid'}`)
  }
}

const newId = () => `call_${randomUUID()}`

/** @throws ProviderError if the base URL is invalid */
export function createChatProvider(settings: ChatSettings): ChatProvider {
  const wire = wireOf(settings)
  const endpoint = endpointOf(wire, settings)
  const { provider } = settings

  async function* stream(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
    const { path, body, answer } = wire.chat(request, newId)
    const { streaming } = wire
    const question = {
      ...common,
      path: streaming.path?.(path) ?? path,
      body: { ...body, ...streaming.body },
      format: streaming.format,
      maximumBytes: answerBytes(request, 'stream'),
    }
    const assembly = streaming.assemble()
    for await (const piece of streamPieces(endpoint, question, signal)) {
      const text = inLanguage(() => assembly.take(piece), provider)
      if (text !== '') yield { type: 'text', text }
    }
    if (!assembly.isComplete())
      throw new ProviderError('unreachable', provider, 'ended its answer before it was complete')
    const assembled = inLanguage(() => assembly.assembled(), provider)
    yield { type: 'end', answer: checkedAnswer(answer, assembled, provider) }
  }

  const common = { ...(wire.headers && { headers: wire.headers }) }
  return {
    provider,
    stream,
    chat(request, signal) {
      const maximumBytes = answerBytes(request, 'whole')
      return exchange(endpoint, { ...wire.chat(request, newId), ...common, maximumBytes }, signal)
    },
    models: signal => exchange(endpoint, { ...wire.models, ...common, maximumBytes: listBytes }, signal),
  }
}
