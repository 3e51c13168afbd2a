/** Counters for Prometheus. /v1/stats also has the tokens. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { PoolFigures } from '../../postgres/pool.ts'
import type { PipelineSet } from '../pipelines.ts'

type TokenKind = 'embedding' | 'rerank' | 'prompt' | 'completion'

const noTokens = { embedding: 0, rerank: 0, prompt: 0, completion: 0 }
export type ProviderRole = 'embedding' | 'completion' | 'rerank'

/** Metrics that requests report. */
export type RequestMetrics = {
  request(pipeline: string, outcome: string, seconds: number): void
  stage(pipeline: string, stage: 'embed' | 'search' | 'answer', seconds: number): void
  incomplete(pipeline: string): void
}

/** Metrics that pipelines report about their providers. */
export type ProviderMetrics = {
  stage: RequestMetrics['stage']
  tokens(pipeline: string, kind: TokenKind, count: number): void
  providerError(pipeline: string, role: ProviderRole, kind: string): void
}

type TokenCounts = Readonly<Record<TokenKind, number>>

type Labels = Readonly<Partial<Record<string, string | number>>>

/** A metric with the label `pipeline`. */
type OfPipelines = {
  get(): Promise<{ readonly values: readonly { readonly labels: Labels }[] }>
  remove(labels: Labels): void
}

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export class Metrics implements RequestMetrics, ProviderMetrics {
  readonly registry = new Registry()
  readonly #registers = { registers: [this.registry] }
  readonly #tokensOf = new Map<string, Record<TokenKind, number>>()
  /** The totals of all pipelines, including removed pipelines. */
  readonly totals = { ...noTokens, providerErrors: 0 }
  readonly #requests = new Counter({
    name: 'rag_requests_total',
    help: 'Queries, by pipeline and outcome: OK, CLIENT_GONE or the error code',
    labelNames: ['pipeline', 'outcome'],
    ...this.#registers,
  })
  readonly #durations = new Histogram({
    name: 'rag_request_duration_seconds',
    help: 'From the headers of a query to the end of its answer',
    labelNames: ['pipeline'],
    buckets: seconds,
    ...this.#registers,
  })
  readonly #stages = new Histogram({
    name: 'rag_stage_duration_seconds',
    help: 'Parts of a query: embed (the embedding provider, within search), search, answer (the completion provider)',
    labelNames: ['pipeline', 'stage'],
    buckets: seconds,
    ...this.#registers,
  })
  readonly #tokens = new Counter({
    name: 'rag_tokens_total',
    help: 'Tokens as reported by providers: of embedded queries (estimated if the provider reports none), reranked documents, prompts and completions',
    labelNames: ['pipeline', 'kind'],
    ...this.#registers,
  })
  readonly #providerErrors = new Counter({
    name: 'rag_provider_errors_total',
    help: 'Requests to providers that failed after their retries',
    labelNames: ['pipeline', 'role', 'kind'],
    ...this.#registers,
  })
  readonly #incomplete = new Counter({
    name: 'rag_incomplete_searches_total',
    help: 'Searches answered from the index, since an exact one took too long',
    labelNames: ['pipeline'],
    ...this.#registers,
  })
  readonly #reloads = new Counter({
    name: 'rag_configuration_reloads_total',
    help: 'Reloads of the configuration, by result: applied or refused',
    labelNames: ['result'],
    ...this.#registers,
  })

  readonly #pipelines: () => Pick<PipelineSet, 'has'>

  constructor(pipelines: () => Pick<PipelineSet, 'all' | 'has' | 'inFlight'>) {
    this.#pipelines = pipelines
    const gauge = (name: string, help: string, read: (figures: PoolFigures, pipeline: string) => number) =>
      new Gauge({
        name,
        help,
        labelNames: ['pipeline'],
        ...this.#registers,
        collect() {
          this.reset()
          for (const { settings, pool } of pipelines().all())
            this.set({ pipeline: settings.name }, read(pool, settings.name))
        },
      })
    gauge('rag_requests_in_flight', 'Queries in progress', (_, name) => pipelines().inFlight(name))
    gauge('rag_db_pool_max', 'Maximum number of connections', ({ size }) => size)
    gauge('rag_db_pool_open', 'Open connections', ({ open }) => open)
    gauge('rag_db_pool_available', 'Open idle connections', ({ idle }) => idle)
    gauge('rag_db_pool_waiting', 'Queries that wait for a connection', ({ waiting }) => waiting)
  }

  /** Queries of unknown or removed pipelines count without a name. */
  request(name: string, outcome: string, duration: number): void {
    const pipeline = this.#isThere(name) ? name : ''
    this.#requests.inc({ pipeline, outcome })
    this.#durations.observe({ pipeline }, duration)
  }

  stage(pipeline: string, stage: 'embed' | 'search' | 'answer', duration: number): void {
    if (!this.#isThere(pipeline)) return
    this.#stages.observe({ pipeline, stage }, duration)
  }

  incomplete(pipeline: string): void {
    if (this.#isThere(pipeline)) this.#incomplete.inc({ pipeline })
  }

  tokens(pipeline: string, kind: TokenKind, count: number): void {
    if (!this.#isThere(pipeline)) return
    this.#tokens.inc({ pipeline, kind }, count)
    this.totals[kind] += count
    const counts = this.#tokensOf.get(pipeline) ?? noTokens
    this.#tokensOf.set(pipeline, { ...counts, [kind]: counts[kind] + count })
  }

  providerError(pipeline: string, role: ProviderRole, kind: string): void {
    if (!this.#isThere(pipeline)) return
    this.#providerErrors.inc({ pipeline, role, kind })
    this.totals.providerErrors += 1
  }

  reload(isApplied: boolean): void {
    this.#reloads.inc({ result: isApplied ? 'applied' : 'refused' })
  }

  /**
   * Removes all metrics of a pipeline that a reload has removed. Ignores later reports of the pipeline's last requests.
   */
  async forget(pipeline: string): Promise<void> {
    this.#tokensOf.delete(pipeline)
    const all: readonly OfPipelines[] = [
      this.#requests,
      this.#durations,
      this.#stages,
      this.#tokens,
      this.#providerErrors,
      this.#incomplete,
    ]
    for (const metric of all) {
      const { values } = await metric.get()
      for (const { labels } of values) {
        if (labels.pipeline !== pipeline || this.#isThere(pipeline)) continue
        // A bucket's label is not a label of the histogram itself.
        const { le: _, ...own } = labels
        metric.remove(own)
      }
    }
  }

  /** Counts since the server started, or since a reload added the pipeline. Other reloads do not reset the counts. */
  tokensOf(pipeline: string): TokenCounts {
    return this.#tokensOf.get(pipeline) ?? noTokens
  }

  #isThere(pipeline: string): boolean {
    return this.#pipelines().has(pipeline)
  }
}
