/**
 * The embedding model of a load, with longer timeouts than for a question: a load has time, and batches take longer.
 */
import { createEmbedder } from '../../providers/embedding.ts'
import type { Embedder } from '../../providers/types.ts'
import type { EmbeddingSettings } from '../configuration/types.ts'

/**
 * Providers with rate limits say how long to wait, usually less than a minute. All attempts end with the request's
 * timeout.
 */
const retryLimits = { retries: 20, longestPauseMs: 60_000 }

/** @throws ProviderError if the base URL cannot be used */
export const loadingEmbedder = (settings: EmbeddingSettings): Embedder =>
  createEmbedder({ ...settings, ...retryLimits, attemptTimeoutMs: settings.timeoutMs })
