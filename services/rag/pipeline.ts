/** Assembles one pipeline: the searcher of its tables, and its providers. Also counts the requests to providers. */
import type { Logger } from 'pino'
import { createChatProvider } from '../providers/chat/index.ts'
import { createEmbedder } from '../providers/embedding.ts'
import { ProviderError } from '../providers/errors.ts'
import { createReranker } from '../providers/rerank.ts'
import type { ChatProvider, Embedder, TokenUsage } from '../providers/types.ts'
import { Answerer } from './answer/index.ts'
import { beginning } from './answer/truncate.ts'
import type { PipelineSettings, RerankSettings } from './configuration/types.ts'
import { QueryVectors } from './embedding/query-vectors.ts'
import type { Pipeline, Reachability } from './pipelines.ts'
import { ofProvider } from './provider-errors.ts'
import { completionReachability, embeddingReachability } from './reachability.ts'
import { type OnTokens, type Rerank, Searcher } from './search/index.ts'
import { LexicalArm } from './search/lexical/index.ts'
import type { Lexical } from './search/lexical-interface.ts'
import type { ProviderMetrics, ProviderRole } from './server/metrics.ts'

export type PipelineParts = { readonly logger: Logger; readonly metrics: ProviderMetrics; readonly now: () => number }

/** Counts a provider's requests and failures. */
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

/** Adapts the lexical arm to the searcher's interface. */
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

/** Only one more attempt, soon, because a client waits. */
const tries = { retries: 1, longestPauseMs: 10_000 }
/** Rerankers do not read more characters of a document. */
const longestReranked = 16_000

/** @throws ProviderError if a base URL cannot be used */
export function createPipeline(settings: PipelineSettings, { logger, metrics, now }: PipelineParts): Pipeline {
  const { name } = settings
  const { counted, chat: countedChat } = countedBy(name, metrics)
  const chat = countedChat(createChatProvider({ ...settings.completion, ...tries }))
  const answerer = new Answerer({ settings, chat })
  const vectors = new QueryVectors({
    embedder: countedEmbedder(),
    onDimensionsChange: (before, after) =>
      logger.warn({ before, after }, 'the embedding model returns vectors of another length than before'),
  })
  const reachable = {
    embedding: embeddingReachability(settings.embedding),
    completion: completionReachability(settings.completion),
  }

  function countedEmbedder(): Embedder {
    const embedder = createEmbedder({ ...settings.embedding, ...tries })
    return {
      ...embedder,
      embed: (texts, purpose, signal, onTokens) =>
        counted('embedding', embedder.embed(texts, purpose, signal, onTokens)),
    }
  }

  async function embed(text: string, signal: AbortSignal, onTokens: OnTokens): Promise<ArrayLike<number>> {
    const began = performance.now()
    try {
      return await vectors.embed(text, signal, tokens => {
        metrics.tokens(name, 'embedding', tokens)
        onTokens(tokens)
      })
    } catch (error) {
      throw ofProvider(error, signal)
    } finally {
      metrics.stage(name, 'embed', (performance.now() - began) / 1_000)
    }
  }

  function rerankBy(rerank: RerankSettings): Rerank {
    const reranker = createReranker({ ...rerank, ...tries })
    return (query, texts, signal, onTokens) => {
      const documents = texts.map(text => beginning(text, longestReranked))
      const ranked = reranker.rerank(query, documents, texts.length, signal, tokens => {
        metrics.tokens(name, 'rerank', tokens)
        onTokens(tokens)
      })
      return counted('rerank', ranked)
    }
  }

  const searcher = new Searcher({
    pipeline: settings,
    embed,
    ...(settings.rerank && { rerank: rerankBy(settings.rerank) }),
    makeLexical: lexicalOf,
    logger,
    now,
  })
  async function databaseHealth(signal: AbortSignal): Promise<Reachability> {
    const { warnings, ...rest } = await searcher.health(signal)
    return { ...rest, ...(warnings.length > 0 && { warnings }) }
  }

  return {
    settings,
    get pool() {
      return searcher.pool
    },
    search: (request, signal) => searcher.search(request, signal),
    answer: (question, signal) => answerer.answer(question, signal),
    answerStream: (question, signal) => answerer.answerStream(question, signal),
    async health(signal) {
      const [embedding, completion, database] = await Promise.all([
        reachable.embedding(signal),
        reachable.completion(signal),
        databaseHealth(signal),
      ])
      return { embedding, completion, database }
    },
    databaseHealth,
    close: () => searcher.close(),
  }
}
