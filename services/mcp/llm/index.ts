/**
 * Endpoints that forward chats to language models, so that a browser needs no provider key: the providers, their
 * models, and the chat itself.
 */
import { createChatProvider } from '../../providers/chat/index.ts'
import { ProviderError } from '../../providers/errors.ts'
import type { ChatProvider } from '../../providers/types.ts'
import { parseBody } from '../api/body.ts'
import { ApiError } from '../api/errors.ts'
import type { ApiRoute } from '../api/route.ts'
import type { LlmSettings } from '../configuration/types.ts'
import { chatRequest } from './request.ts'

const displays: Readonly<Record<LlmSettings['provider'], string>> = {
  anthropic: 'Anthropic',
  openai: 'OpenAI',
  gemini: 'Google Gemini',
  ollama: 'Ollama',
}

type Configured = { readonly settings: LlmSettings; readonly provider: ChatProvider }

/** The client's status when a provider fails. If the provider refuses the request, the client gets a 400. */
function statusOf({ kind, status }: ProviderError): ApiError['status'] {
  switch (kind) {
    case 'limited':
      return status === 429 ? 429 : 502
    case 'timeout':
      return 504
    case 'refused':
      return status === 400 || status === 404 || status === 422 ? 400 : 502
    case 'unreachable':
    case 'malformed':
      return 502
  }
}

async function withHttpErrors<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof ProviderError) throw new ApiError(statusOf(error), error.message)
    throw error
  }
}

/**
 * `llm`: the available providers. The first is the default.
 * @throws ProviderError if a provider's base URL is invalid
 */
export function llmRoutes(llm: readonly LlmSettings[]): readonly ApiRoute[] {
  const configured: readonly Configured[] = llm.map(settings => ({ settings, provider: createChatProvider(settings) }))

  /** @throws ApiError */
  function named(name: string): Configured {
    const found = configured.find(({ provider }) => provider.provider === name)
    if (found !== undefined) return found
    const known = configured.map(({ provider }) => provider.provider).join(', ') || 'none'
    throw new ApiError(400, `provider: ${JSON.stringify(name.slice(0, 64))} is not configured; configured: ${known}`)
  }

  function chosen(name: string | undefined): Configured {
    const [first] = configured
    if (first === undefined) throw new ApiError(503, 'no language model is configured')
    return name === undefined ? first : named(name)
  }

  return [
    {
      method: 'GET',
      path: '/api/llm/providers',
      answer: async () => ({
        status: 200,
        body: {
          providers: configured.map(({ settings: { provider } }, index) => ({
            name: provider,
            display: displays[provider],
            isDefault: index === 0,
          })),
          defaultModel: configured[0]?.settings.model ?? '',
        },
      }),
    },
    {
      method: 'GET',
      path: '/api/llm/models',
      answer: async ({ query, signal }) => {
        const name = query.get('provider')
        if (name === null || name === '') throw new ApiError(400, 'provider: is required')
        const models = await withHttpErrors(named(name).provider.models(signal))
        return { status: 200, body: { models: models.map(one => ({ ...one })) } }
      },
    },
    {
      method: 'POST',
      path: '/api/llm/chat',
      answer: async ({ body, signal }) => {
        const { provider: name, model: wanted, messages, tools } = parseBody(chatRequest, body)
        const { provider, settings } = chosen(name)
        const model = wanted ?? settings.model
        if (model === undefined)
          throw new ApiError(400, `model: is required: none is configured for ${provider.provider}`)
        const { maximumTokens, temperature } = settings
        const request = { model, messages, tools, maximumTokens, temperature }
        const { content, stop_reason, token_usage } = await withHttpErrors(provider.chat(request, signal))
        return {
          status: 200,
          body: {
            content: content.map(block => ({ ...block })),
            stop_reason,
            ...(token_usage && { token_usage: { ...token_usage } }),
          },
        }
      },
    },
  ]
}
