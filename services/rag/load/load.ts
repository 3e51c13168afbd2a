/**
 * Loads files into the table of a pipeline. Passages are embedded in concurrent batches, and each batch is committed
 * once it has its vectors. Unchanged passages are not embedded again. A stopped load continues with the next run.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Address } from '../../postgres/address.ts'
import { ProviderError } from '../../providers/errors.ts'
import type { Embedder } from '../../providers/types.ts'
import { estimateTokens } from '../../retrieval/tokens.ts'
import type { TableSettings } from '../configuration/types.ts'
import { LoadDatabase } from './database.ts'
import type { SourceFile } from './documents/files.ts'
import { passagesOf } from './documents/read.ts'
import type { Passage } from './documents/types.ts'
import { LoadError } from './errors.ts'
import { inspect, schemaOf } from './table/inspect.ts'
import { digestOf, idOf, type StagedPassage } from './table/staging.ts'
import { modelName, Target, type TargetOptions } from './target.ts'

/** The progress so far. `bytes`: the bytes of files that were read. `tokens`: estimated tokens of embedded text. */
export type LoadFigures = {
  files: number
  bytes: number
  passages: number
  embedded: number
  unchanged: number
  deleted: number
  tokens: number
}

export type LoadOptions = TargetOptions & {
  readonly address: Address
  readonly table: TableSettings
  readonly embedder: Embedder
  readonly files: readonly SourceFile[]
  /** The approximate size of a passage in tokens. */
  readonly maximumTokens: number
  /** The number of passages in one request to the provider. */
  readonly batchSize: number
  /** The number of concurrent requests to the provider. */
  readonly parallel: number
  /** Whether to delete documents that are in none of the files. */
  readonly prune: boolean
  /** How long to wait for another load to end. If that load was killed, Postgres detects this quickly. */
  readonly lockWaitMs: number
  readonly onProgress: (figures: Readonly<LoadFigures>, step: 'files' | 'index') => void
  readonly signal: AbortSignal
}

type LoadResult = { readonly figures: Readonly<LoadFigures>; readonly warnings: readonly string[] }

/** @throws LoadError, ProviderError; the signal's reason */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const database = await LoadDatabase.open(options.address)
  const cancel = () => database.cancel()
  options.signal.addEventListener('abort', cancel, { once: true })
  try {
    return await loadInto(database, options)
  } catch (error) {
    // If the signal stopped the statement, throws the signal's reason instead of the statement's error.
    options.signal.throwIfAborted()
    throw error
  } finally {
    options.signal.removeEventListener('abort', cancel)
    database.close()
  }
}

async function loadInto(database: LoadDatabase, options: LoadOptions): Promise<LoadResult> {
  const { table: settings, embedder, files, prune, onProgress } = options
  await lock(database, options)
  const inspected = await inspect(database, settings)
  const model = modelName(embedder)
  const target = new Target(database, inspected, model, randomUUID(), options)
  await target.prepare()
  const loading = new Loading(target, model, options)
  await loading.run()
  options.signal.throwIfAborted()
  const { deleted } = await target.finish(prune ? files.map(({ source }) => source) : undefined)
  const { figures } = loading
  figures.deleted += deleted
  onProgress(figures, 'index')
  options.signal.throwIfAborted()
  const warning = await target.index()
  return { figures, warnings: warning === undefined ? [] : [warning] }
}

const lockPauseMs = 250

/** Holds the lock until the connection ends. @throws LoadError */
async function lock(database: LoadDatabase, { table, lockWaitMs, signal }: LoadOptions): Promise<void> {
  // The key must be the same with and without a schema in the configured name.
  const key = `espalier rag load ${await schemaOf(database, table)}.${table.name}`
  for (let waited = 0; waited <= lockWaitMs; waited += lockPauseMs) {
    const { rows } = await database.query(
      'SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0)) AS is_mine',
      [key],
    )
    if (rows[0]?.flag('is_mine')) return
    await pause(lockPauseMs, undefined, { signal })
  }
  throw new LoadError(`another load of ${JSON.stringify(table.name)} is running; wait until it has ended`)
}

class Loading {
  readonly figures: LoadFigures = { files: 0, bytes: 0, passages: 0, embedded: 0, unchanged: 0, deleted: 0, tokens: 0 }
  readonly #target: Target
  readonly #model: string
  readonly #options: LoadOptions
  /** Aborted by the first failure. `#signal` also includes the caller's signal. */
  readonly #failed = new AbortController()
  readonly #signal: AbortSignal
  readonly #running = new Set<Promise<void>>()
  /** Files are completed in order, after all earlier files are complete. */
  #tail: Promise<void> = Promise.resolve()

  constructor(target: Target, model: string, options: LoadOptions) {
    this.#target = target
    this.#model = model
    this.#options = options
    this.#signal = AbortSignal.any([options.signal, this.#failed.signal])
  }

  /** Resolves when all files are in the table. */
  async run(): Promise<void> {
    const { files, maximumTokens, batchSize } = this.#options
    let batch: StagedPassage[] = []
    let ended: SourceFile[] = []
    let before = 0
    try {
      for (const file of files) {
        for await (const passage of passagesOf(file, maximumTokens)) {
          batch.push(this.#staged(file.source, passage))
          if (batch.length < batchSize) continue
          this.figures.bytes = before + Math.min(passage.position, file.bytes)
          await this.#dispatch(batch, ended)
          batch = []
          ended = []
        }
        ended.push(file)
        before += file.bytes
        this.figures.bytes = before
      }
      await this.#dispatch(batch, ended)
      await this.#tail
    } catch (error) {
      this.#failed.abort(error)
      await Promise.allSettled([...this.#running, this.#tail])
      // Throws the first failure, not the failures of work that stopped because of it.
      throw this.#failed.signal.reason
    }
  }

  #staged(source: string, { document, heading, ordinal, position, content, key }: Passage): StagedPassage {
    const [id, digest] = [idOf(source, document, key), digestOf(this.#model, content)]
    // Postgres text accepts neither lone surrogates nor zero bytes.
    const clean = (text: string) => text.toWellFormed().replaceAll('\0', '\uFFFD')
    return {
      id,
      source,
      document: clean(document),
      heading: clean(heading),
      ordinal,
      position,
      digest,
      content: clean(content),
    }
  }

  /**
   * Waits while the maximum number of batches is running. `ended`: files whose last passages are in this batch or an
   * earlier batch.
   */
  async #dispatch(batch: readonly StagedPassage[], ended: readonly SourceFile[]): Promise<void> {
    while (this.#running.size >= this.#options.parallel) await Promise.race(this.#running)
    this.#signal.throwIfAborted()
    const work = this.#work(batch).catch((error: unknown) => {
      this.#failed.abort(error)
      throw error
    })
    const running = work.finally(() => this.#running.delete(running))
    this.#running.add(running)
    running.catch(() => undefined)
    const before = this.#tail
    this.#tail = Promise.all([before, work]).then(() => this.#finish(ended))
    // `run` awaits the tail at the end. After a failure, no new batch starts.
    this.#tail.catch((error: unknown) => this.#failed.abort(error))
  }

  async #work(batch: readonly StagedPassage[]): Promise<void> {
    if (batch.length === 0) return
    const { unchanged, needed } = await this.#target.stage(batch)
    this.#signal.throwIfAborted()
    const texts = new Map(needed.map(({ digest, content }) => [digest, content]))
    if (texts.size > 0) {
      await this.#embed([...texts])
    }
    this.figures.passages += batch.length
    this.figures.unchanged += unchanged
    this.figures.embedded += texts.size
    for (const text of texts.values()) this.figures.tokens += estimateTokens(text)
    this.#options.onProgress(this.figures, 'files')
  }

  /** `texts`: by digest. If a model is too slow for all texts, sends each half separately. */
  async #embed(texts: readonly (readonly [string, string])[]): Promise<void> {
    const contents = texts.map(([, content]) => content)
    const vectors = await this.#options.embedder.embed(contents, 'document', this.#signal).catch((error: unknown) => {
      const isTooMuch = error instanceof ProviderError && error.kind === 'timeout' && texts.length > 1
      if (isTooMuch) return undefined
      throw error
    })
    if (vectors !== undefined) {
      await this.#target.embed(new Map(texts.map(([digest], index) => [digest, vectors[index] ?? []])))
      return
    }
    const half = Math.ceil(texts.length / 2)
    await this.#embed(texts.slice(0, half))
    await this.#embed(texts.slice(half))
  }

  async #finish(ended: readonly SourceFile[]): Promise<void> {
    if (ended.length === 0) return
    this.#signal.throwIfAborted()
    const { deleted } = await this.#target.finishFiles(ended.map(({ source }) => source))
    this.figures.deleted += deleted
    this.figures.files += ended.length
    this.#options.onProgress(this.figures, 'files')
  }
}
