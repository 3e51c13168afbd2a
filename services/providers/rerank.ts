/**
 * Reranking models over HTTP: Voyage, and servers with a compatible endpoint. Cohere, Jina, vLLM and Text Embeddings
 * Inference name their list `results`, or send the list alone. Omits documents without a score in the response.
 */
import { z } from 'zod'
import { bearer, type EndpointSettings, endpointOf, type Protocol } from './endpoint.ts'
import { ProviderError } from './errors.ts'
import { exchange } from './exchange.ts'

type RerankerSettings = EndpointSettings & { readonly provider: 'voyage'; readonly model: string }

type Ranked = { readonly index: number; readonly score: number }

/** @throws ProviderError; the signal's reason */
type Reranker = {
  /** Returns at most `depth` documents, the best first. `index`: the position in `documents`. */
  rerank(
    query: string,
    documents: readonly string[],
    depth: number,
    signal: AbortSignal,
    /** Called with the provider's token count, if it reports one. */
    onTokens?: (tokens: number) => void,
  ): Promise<readonly Ranked[]>
}

const protocol: Protocol = {
  provider: 'voyage',
  defaultBaseUrl: 'https://api.voyageai.com/v1',
  keyHeaders: bearer,
}

const mostBytes = 4_194_304
/** Some servers repeat the documents in the response, as JSON with escapes. */
const bytesPerDocument = 512
const repeated = 2

const answerBytes = (documents: readonly string[]): number =>
  Math.min(
    mostBytes,
    65_536 + documents.reduce((sum, text) => sum + bytesPerDocument + repeated * Buffer.byteLength(text), 0),
  )

const score = z.number()
const entry = z
  .object({ index: z.int().min(0), relevance_score: score.optional(), score: score.optional() })
  .transform(({ index, relevance_score, score: other }, context): Ranked => {
    const ownScore = relevance_score ?? other
    if (ownScore !== undefined) return { index, score: ownScore }
    context.addIssue({ code: 'custom', message: 'must have a relevance_score' })
    return z.NEVER
  })
const entries = z.array(entry)
const usage = z
  .object({ total_tokens: z.int().min(0) })
  .optional()
  .catch(undefined)
const answer = z.union(
  [
    z.object({ data: entries, usage }).transform(({ data, usage: used }) => ({ ranked: data, used })),
    z.object({ results: entries, usage }).transform(({ results, usage: used }) => ({ ranked: results, used })),
    entries.transform(ranked => ({ ranked, used: undefined })),
  ],
  'must be a list of an index and a relevance_score each',
)

function checked(ranked: readonly Ranked[], count: number): readonly Ranked[] {
  const seen = new Set(ranked.map(({ index }) => index))
  if (seen.size !== ranked.length) throw new ProviderError('malformed', 'voyage', 'ranked a document twice')
  if (ranked.some(({ index }) => index >= count))
    throw new ProviderError('malformed', 'voyage', 'ranked a document that was not in the request')
  return ranked.toSorted((one, other) => other.score - one.score || one.index - other.index)
}

/** @throws ProviderError if the base URL is invalid */
export function createReranker(settings: RerankerSettings): Reranker {
  const { model } = settings
  const endpoint = endpointOf(protocol, settings)
  return {
    async rerank(query, documents, depth, signal, onTokens) {
      if (documents.length === 0) return []
      const body = { query, documents, model, top_k: Math.min(depth, documents.length) }
      const maximumBytes = answerBytes(documents)
      const { ranked, used } = await exchange(endpoint, { path: '/rerank', body, answer, maximumBytes }, signal)
      if (used !== undefined) onTokens?.(used.total_tokens)
      return checked(ranked, documents.length).slice(0, depth)
    },
  }
}
