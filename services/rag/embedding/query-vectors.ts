/** The vectors of queries: those asked for last are kept, and equal queries at once are one request to the provider. Errors are not kept. */
import { LRUCache } from 'lru-cache'
import { areFinite } from '../../providers/embedding.ts'
import { ProviderError } from '../../providers/errors.ts'
import type { Embedder } from '../../providers/types.ts'
import { expectedTokens } from '../../tokens/expected.ts'
import { SharedWork } from './shared-work.ts'

type Options = {
  readonly embedder: Embedder
  /** The provider has changed its model: what was kept is dropped. */
  readonly onDimensionsChange: (before: number, now: number) => void
  /** Of all that is kept. */
  readonly maximumBytes?: number
}

const usualBytes = 8_388_608
/** An entry of the cache, beside its text and its vector. */
const entryBytes = 200

export class QueryVectors {
  readonly #options: Options
  readonly #kept: LRUCache<string, Float32Array>
  readonly #shared = new SharedWork<Float32Array>()
  #dimensions: number | undefined

  constructor(options: Options) {
    const { maximumBytes = usualBytes } = options
    this.#options = options
    this.#kept = new LRUCache({
      maxSize: maximumBytes,
      maxEntrySize: maximumBytes,
      sizeCalculation: (vector, text) => entryBytes + 2 * text.length + vector.byteLength,
    })
  }

  /**
   * `onTokens`: called if the provider is asked for this caller, with the tokens that it reports, else with an estimate.
   * @throws ProviderError; what the signal is aborted with
   */
  async embed(text: string, signal: AbortSignal, onTokens?: (tokens: number) => void): Promise<Float32Array> {
    signal.throwIfAborted()
    const vector =
      this.#kept.get(text) ?? (await this.#shared.run(text, signal, limit => this.#ask(text, limit, onTokens)))
    // The caller may change it.
    return vector.slice()
  }

  async #ask(text: string, signal: AbortSignal, onTokens?: (tokens: number) => void): Promise<Float32Array> {
    const { embedder } = this.#options
    const [numbers = []] = await embedder.embed([text], 'query', signal, tokens =>
      onTokens?.(tokens ?? Math.ceil(expectedTokens(text, 'usual'))),
    )
    // As pgvector stores them.
    const vector = new Float32Array(numbers)
    if (!areFinite(vector))
      throw new ProviderError('malformed', embedder.provider, 'sent a number that is too large for a vector')
    this.#note(vector.length)
    this.#kept.set(text, vector)
    return vector
  }

  #note(dimensions: number): void {
    const before = this.#dimensions
    this.#dimensions = dimensions
    if (before === undefined || before === dimensions) return
    this.#kept.clear()
    this.#options.onDimensionsChange(before, dimensions)
  }
}
