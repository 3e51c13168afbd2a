/** One pipeline of its parts: the searcher of its tables, and its providers. What goes to providers is counted here. */
import type { Logger } from 'pino'
import { createChatProvider } from '../providers/chat/index.ts'
import { createEmbedder } from '../providers/embedding.ts'
import { ProviderError } from '../providers/errors.ts'
import type { ChatProvider, ChatRequest, TokenUsage } from '../providers/types.ts'
import { expectedTokens } from '../tokens/expected.ts'
import type { PipelineSettings } from './configuration/types.ts'
import type { Pipeline, Question } from './pipelines.ts'
import { completionReachability, embeddingReachability } from './reachability.ts'
import { Searcher } from './search/index.ts'
import { LexicalArm } from './search/lexical/index.ts'
import type { Lexical } from './search/lexical-interface.ts'
import type { ProviderMetrics, ProviderRole } from './server/metrics.ts'

export type PipelineParts = { readonly logger: Logger; readonly metrics: ProviderMetrics; readonly now: () => number }

/** Counts what a provider does and fails with. */
function countedBy(name: string, metrics: ProviderMetrics) {
  const failed = (role: ProviderRole, error: unknown) => {
    if (error instanceof ProviderError) metrics.providerError(name, role, error.kind)
  }
  const used = (usage: TokenUsage | undefined) => {
    metrics.tokens(name, 'prompt', usage?.prompt_tokens ?? 0)
    metrics.tokens(name, 'completion', usage?.completion_tokens ?? 0)
  }
  async function counted<T>(role: ProviderRole, work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      failed(role, error)
      throw error
    }
  }
  const chat = (provider: ChatProvider): ChatProvider => ({
    ...provider,
    async chat(request, signal) {
      const answer = await counted('completion', provider.chat(request, signal))
      used(answer.token_usage)
      return answer
    },
    async *stream(request, signal) {
      try {
        for await (const event of provider.stream(request, signal)) {
          if (event.type === 'end') used(event.answer.token_usage)
          yield event
        }
      } catch (error) {
        failed('completion', error)
        throw error
      }
    },
  })
  return { counted, chat }
}

/** The lexical arm as the searcher takes it. */
function lexicalOf(options: ConstructorParameters<typeof LexicalArm>[0]): Lexical {
  const arm = new LexicalArm(options)
  return {
    get warnings() {
      return arm.warnings
    },
    async prepare(query, signal) {
      const plan = await arm.prepare(query, signal)
      return (
        plan && ((condition, parameters, limit, matching) => arm.query(plan, condition, parameters, limit, matching))
      )
    },
  }
}

const nothingFound = 'No relevant information found in the available documents.'

/** @throws ProviderError if a base URL cannot be used */
export function createPipeline(settings: PipelineSettings, { logger, metrics, now }: PipelineParts): Pipeline {
  const { name } = settings
  const { counted, chat: countedChat } = countedBy(name, metrics)
  const chat = countedChat(createChatProvider(settings.completion))
  const embedder = createEmbedder(settings.embedding)
  const reachable = {
    embedding: embeddingReachability(settings.embedding),
    completion: completionReachability(settings.completion),
  }

  async function embed(text: string, signal: AbortSignal): Promise<readonly number[]> {
    const began = performance.now()
    try {
      metrics.tokens(name, 'embedding', Math.ceil(expectedTokens(text, 'usual')))
      const [vector = []] = await counted('embedding', embedder.embed([text], 'query', signal))
      return vector
    } finally {
      metrics.stage(name, 'embed', (performance.now() - began) / 1_000)
    }
  }

  const searcher = new Searcher({ pipeline: settings, embed, makeLexical: lexicalOf, logger, now })
  const requestOf = ({ query, history, documents }: Question): ChatRequest => ({
    model: settings.completion.model,
    tools: [],
    maximumTokens: settings.tokenBudget,
    messages: [
      { role: 'system', content: [{ type: 'text', text: documents.map(({ content }) => content).join('\n\n') }] },
      ...history.map(({ role, content }) => ({ role, content: [{ type: 'text' as const, text: content }] })),
      { role: 'user', content: [{ type: 'text', text: query }] },
    ],
  })
  return {
    settings,
    get pool() {
      return searcher.pool
    },
    search: (request, signal) => searcher.search(request, signal),
    async answer(question, signal) {
      if (question.documents.length === 0) return { answer: nothingFound, tokensUsed: 0 }
      const { content, token_usage } = await chat.chat(requestOf(question), signal)
      const answer = content.map(block => (block.type === 'text' ? block.text : '')).join('')
      return { answer, tokensUsed: token_usage?.total_tokens ?? 0 }
    },
    async *answerStream(question, signal) {
      let tokensUsed = 0
      if (question.documents.length === 0) {
        yield nothingFound
        return { tokensUsed }
      }
      for await (const event of chat.stream(requestOf(question), signal)) {
        if (event.type === 'text') yield event.text
        else tokensUsed = event.answer.token_usage?.total_tokens ?? 0
      }
      return { tokensUsed }
    },
    async health(signal) {
      const [embedding, completion, database] = await Promise.all([
        reachable.embedding(signal),
        reachable.completion(signal),
        searcher.health(signal),
      ])
      const { warnings, ...rest } = database
      return { embedding, completion, database: { ...rest, ...(warnings.length > 0 && { warnings }) } }
    },
    close: () => searcher.close(),
  }
}
