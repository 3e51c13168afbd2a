/**
 * The running pipelines. A request leases its pipeline until the request ends, so that a reload does not close a
 * pipeline in use.
 */
import { isDeepStrictEqual } from 'node:util'
import type { PoolFigures } from '../postgres/pool.ts'
import type { PipelineSettings } from './configuration/types.ts'
import { RagError } from './errors.ts'
import type { Message } from './request/body.ts'
import type { FoundDocument, SearchRequest, SearchResult } from './search/types.ts'

export type Question = {
  readonly query: string
  /** Earlier messages, oldest first. */
  readonly history: readonly Message[]
  readonly documents: readonly FoundDocument[]
}

export type Answer = { readonly answer: string; readonly tokensUsed: number }

export type Reachability = {
  readonly reachable: boolean
  readonly error?: string
  readonly warnings?: readonly string[]
}

export type PipelineHealth = {
  readonly embedding: Reachability
  readonly completion: Reachability
  readonly database: Reachability
}

/** @throws RagError */
export type Pipeline = {
  readonly settings: PipelineSettings
  readonly pool: PoolFigures
  search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult>
  answer(question: Question, signal: AbortSignal): Promise<Answer>
  /** Yields the answer as it arrives. Ends the request to the provider if the caller stops reading. */
  answerStream(question: Question, signal: AbortSignal): AsyncGenerator<string, { readonly tokensUsed: number }>
  health(signal: AbortSignal): Promise<PipelineHealth>
  /** Checks only the database, and calls no provider. */
  databaseHealth(signal: AbortSignal): Promise<Reachability>
  close(): Promise<void>
}

type Entry = { readonly pipeline: Pipeline; leases: number; isRetired: boolean }

export type Lease = { readonly pipeline: Pipeline; release(): void }

type Change = { readonly added: string[]; readonly changed: string[]; readonly removed: string[] }

export class PipelineSet {
  readonly #make: (settings: PipelineSettings) => Pipeline
  readonly #onCloseFailure: (error: unknown) => void
  #entries = new Map<string, Entry>()

  constructor(make: (settings: PipelineSettings) => Pipeline, onCloseFailure: (error: unknown) => void) {
    this.#make = make
    this.#onCloseFailure = onCloseFailure
  }

  /** Pipelines in the order of the configuration. */
  all(): readonly Pipeline[] {
    return [...this.#entries.values()].map(({ pipeline }) => pipeline)
  }

  inFlight(name: string): number {
    return this.#entries.get(name)?.leases ?? 0
  }

  /**
   * Keeps pipelines with unchanged settings. Creates all new pipelines before it uses any of them.
   * @throws errors of creating a pipeline; then nothing has changed
   */
  replace(all: readonly PipelineSettings[]): Change {
    const before = this.#entries
    const isSame = (settings: PipelineSettings) =>
      isDeepStrictEqual(before.get(settings.name)?.pipeline.settings, settings)
    const next = new Map<string, Entry>()
    try {
      for (const settings of all) {
        const same = isSame(settings) ? before.get(settings.name) : undefined
        next.set(settings.name, same ?? { pipeline: this.#make(settings), leases: 0, isRetired: false })
      }
    } catch (error) {
      for (const [name, entry] of next) if (before.get(name) !== entry) this.#close(entry)
      throw error
    }
    this.#entries = next
    for (const [name, entry] of before) if (next.get(name) !== entry) this.#retire(entry)
    const names = [...next.keys()]
    return {
      added: names.filter(name => !before.has(name)),
      changed: names.filter(name => before.has(name) && before.get(name) !== next.get(name)),
      removed: [...before.keys()].filter(name => !next.has(name)),
    }
  }

  has(name: string): boolean {
    return this.#entries.has(name)
  }

  /** @throws RagError PIPELINE_NOT_FOUND */
  check(name: string): void {
    this.#entry(name)
  }

  /** @throws RagError PIPELINE_NOT_FOUND, OVERLOADED */
  lease(name: string): Lease {
    const entry = this.#entry(name)
    const { pipeline } = entry
    const most = pipeline.settings.maximumConcurrentRequests
    if (entry.leases >= most)
      throw new RagError('OVERLOADED', `the pipeline is answering ${most} requests, its maximum; retry`)
    entry.leases += 1
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      entry.leases -= 1
      if (entry.isRetired && entry.leases === 0) this.#close(entry)
    }
    return { pipeline, release }
  }

  /** Closes all pipelines, including pipelines in use. */
  async close(): Promise<void> {
    const entries = [...this.#entries.values()]
    this.#entries = new Map()
    await Promise.all(entries.map(({ pipeline }) => pipeline.close().catch(this.#onCloseFailure)))
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name)
    if (entry === undefined) throw new RagError('PIPELINE_NOT_FOUND', `unknown pipeline ${JSON.stringify(name)}`)
    return entry
  }

  #retire(entry: Entry): void {
    entry.isRetired = true
    if (entry.leases === 0) this.#close(entry)
  }

  #close({ pipeline }: Entry): void {
    pipeline.close().catch(this.#onCloseFailure)
  }
}
