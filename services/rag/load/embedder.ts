/** The embedding model for a load. A person waits for a question's vector; a load has time, and batches take longer. */
import { createEmbedder } from '../../providers/embedding.ts'
import type { Embedder } from '../../providers/types.ts'
import type { EmbeddingSettings } from '../configuration/types.ts'

/** Providers that limit requests say how long to wait, usually less than a minute. All tries end with the time of the request. */
const patience = { retries: 20, longestPauseMs: 60_000 }

/** @throws ProviderError where the base URL cannot be used */
export const loadingEmbedder = (settings: EmbeddingSettings): Embedder =>
  createEmbedder({ ...settings, ...patience, attemptTimeoutMs: settings.timeoutMs })
