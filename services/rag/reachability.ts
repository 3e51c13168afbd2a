/** Checks whether a provider responds, at no cost. */
import { createChatProvider } from '../providers/chat/index.ts'
import { createEmbedder } from '../providers/embedding.ts'
import { ProviderError } from '../providers/errors.ts'
import type { CompletionSettings, EmbeddingSettings } from './configuration/types.ts'
import type { Reachability } from './pipelines.ts'

type Probe = (signal: AbortSignal) => Promise<unknown>

/** A server without a list of models still responds. A server that refuses the key cannot be used. */
const isAnswer = ({ kind, status }: ProviderError): boolean =>
  kind === 'malformed' || (kind === 'refused' && status !== undefined && status !== 401 && status !== 403)

async function reachabilityBy(probe: Probe, signal: AbortSignal): Promise<Reachability> {
  try {
    await probe(signal)
    return { reachable: true }
  } catch (error) {
    if (error instanceof ProviderError && isAnswer(error)) return { reachable: true }
    return { reachable: false, error: error instanceof ProviderError ? error.summary : 'did not respond in time' }
  }
}

export function completionReachability(settings: CompletionSettings): (signal: AbortSignal) => Promise<Reachability> {
  const chat = createChatProvider({ ...settings, retries: 0 })
  return signal => reachabilityBy(limit => chat.models(limit), signal)
}

/** Voyage has no list of models, so the check requests the embedding of one word. */
export function embeddingReachability(settings: EmbeddingSettings): (signal: AbortSignal) => Promise<Reachability> {
  const { provider } = settings
  if (provider !== 'voyage') return completionReachability({ ...settings, provider })
  const embedder = createEmbedder({ ...settings, retries: 0 })
  return signal => reachabilityBy(limit => embedder.embed(['health'], 'query', limit), signal)
}
