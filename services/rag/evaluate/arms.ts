/** The variants of a pipeline's search that an evaluation compares: words, vectors, both, and both with reranking. */
import type { PipelineSettings } from '../configuration/types.ts'
import { columnOf, rowKey } from '../load/lookup.ts'
import type { Pipeline } from '../pipelines.ts'
import type { FoundDocument } from '../search/types.ts'
import { CollectionError } from './collection.ts'
import type { Arm } from './evaluate.ts'

type Options = {
  readonly make: (settings: PipelineSettings) => Pipeline
  /**
   * The column with the document names that the judgements use. undefined: `document` if a table has this column,
   * otherwise the id.
   */
  readonly column: string | undefined
  /** The number of documents for each query. */
  readonly depth: number
  readonly signal: AbortSignal
}

/** Every load creates this column. */
const usualColumn = 'document'

const evenWeight = 0.5

/** The settings of each variant by name. */
function armSettings(settings: PipelineSettings): readonly (readonly [string, PipelineSettings])[] {
  const plain = { ...settings, hybridEnabled: true, rerank: undefined }
  const { vectorWeight: weight } = settings
  const vectorWeight = weight > 0 && weight < 1 ? weight : evenWeight
  const arms: (readonly [string, PipelineSettings])[] = [
    ['lexical', { ...plain, vectorWeight: 0 }],
    ['vector', { ...plain, hybridEnabled: false }],
    ['hybrid', { ...plain, vectorWeight }],
  ]
  return settings.rerank === undefined
    ? arms
    : [...arms, ['reranked', { ...settings, hybridEnabled: true, vectorWeight }]]
}

export function armsOf(settings: PipelineSettings, options: Options) {
  const names = new DocumentNames(settings, options.column)
  const pipelines: Pipeline[] = []
  const all = armSettings(settings).map(([name, own]): Arm => {
    const pipeline = options.make(own)
    pipelines.push(pipeline)
    return {
      name,
      find: async query => {
        const request = { query, filter: undefined, topN: options.depth }
        const { documents } = await pipeline.search(request, options.signal)
        return await names.of(documents)
      },
    }
  })
  return {
    all,
    close: async () => {
      await Promise.all(pipelines.map(pipeline => pipeline.close()))
    },
  }
}

/** Names of documents as in the judgements. Looks up each row once. */
class DocumentNames {
  readonly #settings: PipelineSettings
  readonly #column: string | undefined
  readonly #known = new Map<string, string>()

  constructor(settings: PipelineSettings, column: string | undefined) {
    this.#settings = settings
    this.#column = column
  }

  async of(documents: readonly FoundDocument[]): Promise<readonly string[]> {
    const unknown = documents.filter(one => !this.#known.has(rowKey(one)))
    if (unknown.length > 0) {
      const { address, tables } = this.#settings
      const found = await columnOf(address, tables, this.#column ?? usualColumn, unknown)
      if (this.#column !== undefined && found.size === 0) {
        throw new CollectionError(
          `--document-column: no table has a column ${JSON.stringify(this.#column)} beside its id column`,
        )
      }
      for (const one of unknown) this.#known.set(rowKey(one), found.get(rowKey(one)) ?? one.id)
    }
    return documents.map(one => this.#known.get(rowKey(one)) ?? one.id)
  }
}
