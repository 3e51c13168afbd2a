/**
 * The vectors of queries. Recent vectors are cached, and concurrent equal queries share one request to the provider.
 * Errors are not cached.
 */
import { LRUCache } from 'lru-cache'
import { areFinite } from '../../providers/embedding.ts'
import { ProviderError } from '../../providers/errors.ts'
import type { Embedder } from '../../providers/types.ts'
import { expectedTokens } from '../../tokens/expected.ts'
import { SharedWork } from './shared-work.ts'

type Options = {
  readonly embedder: Embedder
  /**
   * Called after the vectors' length has changed, because the provider has changed its model. The cache is then
   * cleared.
   */
  readonly onDimensionsChange: (before: number, now: number) => void
  /** The maximum size of all cached entries, in bytes. */
  readonly maximumBytes?: number
}

const usualBytes = 8_388_608
/** The size of a cache entry without its text and its vector. */
const entryBytes = 200

export class QueryVectors {
  readonly #options: Options
  readonly #cached: LRUCache<string, Float32Array>
  readonly #shared = new SharedWork<Float32Array>()
  #dimensions: number | undefined

  constructor(options: Options) {
    const { maximumBytes = usualBytes } = options
    this.#options = options
    this.#cached = new LRUCache({
      maxSize: maximumBytes,
      maxEntrySize: maximumBytes,
      sizeCalculation: (vector, text) => entryBytes + 2 * text.length + vector.byteLength,
    })
  }

  /**
   * `onTokens`: called if this caller causes a request to the provider, with the provider's token count, or with an
   * estimate if the provider reports none.
   * @throws ProviderError; the signal's reason
   */
  async embed(text: string, signal: AbortSignal, onTokens?: (tokens: number) => void): Promise<Float32Array> {
    signal.throwIfAborted()
    const vector =
      this.#cached.get(text) ??
      (await this.#shared.run(text, signal, limit => this.#requestVector(text, limit, onTokens)))
    // A copy, because the caller may change the vector.
    return vector.slice()
  }

  async #requestVector(text: string, signal: AbortSignal, onTokens?: (tokens: number) => void): Promise<Float32Array> {
    const { embedder } = this.#options
    const [numbers = []] = await embedder.embed([text], 'query', signal, tokens =>
      onTokens?.(tokens ?? Math.ceil(expectedTokens(text, 'usual'))),
    )
    // pgvector stores 32-bit numbers.
    const vector = new Float32Array(numbers)
    if (!areFinite(vector))
      throw new ProviderError('malformed', embedder.provider, 'sent a number that is too large for a vector')
    this.#note(vector.length)
    this.#cached.set(text, vector)
    return vector
  }

  #note(dimensions: number): void {
    const before = this.#dimensions
    this.#dimensions = dimensions
    if (before === undefined || before === dimensions) return
    this.#cached.clear()
    this.#options.onDimensionsChange(before, dimensions)
  }
}
