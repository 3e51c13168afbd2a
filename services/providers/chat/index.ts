/** Chat with a language model of one of the providers: the same request and the same answer, whoever it is. */
import { randomUUID } from 'node:crypto'
import { endpointOf } from '../endpoint.ts'
import { exchange } from '../exchange.ts'
import type { ChatProvider } from '../types.ts'
import { anthropic } from './anthropic.ts'
import { gemini } from './gemini.ts'
import { ollama } from './ollama.ts'
import { openAi } from './openai.ts'
import type { ChatSettings, ChatWire } from './wire.ts'

const maximumBytes = 16_777_216

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

const newId = () => `call_${randomUUID()}`

/** @throws ProviderError where the base URL cannot be used */
export function createChatProvider(settings: ChatSettings): ChatProvider {
  const wire = wireOf(settings)
  const endpoint = endpointOf(wire, settings)
  const common = { maximumBytes, ...(wire.headers && { headers: wire.headers }) }
  return {
    provider: settings.provider,
    chat: (request, signal) => exchange(endpoint, { ...wire.chat(request, newId), ...common }, signal),
    models: signal => exchange(endpoint, { ...wire.models, ...common }, signal),
  }
}
