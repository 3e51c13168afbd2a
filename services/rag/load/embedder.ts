/**
 * The embedding model of a load. Its timeouts are longer than for a question, because batches take longer and no client
 * waits.
 */
import { createEmbedder } from '../../providers/embedding.ts'
import type { Embedder } from '../../providers/types.ts'
import type { EmbeddingSettings } from '../configuration/types.ts'

/**
 * Providers with rate limits report how long to wait, usually less than a minute. The request's timeout limits all
 * attempts together.
 */
const retryLimits = { retries: 20, longestPauseMs: 60_000 }

/** @throws ProviderError if the base URL cannot be used */
export const loadingEmbedder = (settings: EmbeddingSettings): Embedder =>
  createEmbedder({ ...settings, ...retryLimits, attemptTimeoutMs: settings.timeoutMs })
