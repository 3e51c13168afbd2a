/** Answers one query: searches documents, and calls the model with them. */
import type { Logger } from 'pino'
import { readJsonBody } from '../../http/json-body.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import { RagError, SlowBodyError } from '../errors.ts'
import type { Lease, Pipeline, PipelineSet } from '../pipelines.ts'
import { reasonOf } from '../provider-errors.ts'
import { parseQuery, type Query } from '../request/body.ts'
import type { FoundDocument, SearchResult } from '../search/types.ts'
import { jsonAnswer, ragErrorOf, renderError } from './answers.ts'
import { answerDeadline, Deadline, shownMs } from './deadline.ts'
import type { RequestMetrics } from './metrics.ts'
import { type Ended, streamAnswer } from './stream.ts'

type QueryParts = {
  readonly pipelines: PipelineSet
  readonly metrics: RequestMetrics
  readonly logger: Logger
  /** The timeout of a request until its answer, or of a stream until its next event. */
  readonly timeoutMs: () => number
  /** The timeout of a complete stream. */
  readonly streamTimeoutMs: () => number
  /** Called with the limitations of a search. */
  readonly onWarning: (pipeline: string, warning: string) => void
}

type Incoming = { readonly head: RequestHead; readonly body: IncomingBody; readonly signal: AbortSignal }

const sourceOf = ({ id, content, score }: FoundDocument) => ({ id, content, score })

/** A header, because the API's response has no field for it. */
const incomplete = ['Search-Incomplete', 'true'] as const

/** At 100 kB/s, a body of 1 MiB takes this long. */
const longestBodyMs = 10_000

/**
 * Reads the body of a query before the query counts towards its pipeline's limit, so that slow clients do not block
 * other clients.
 * @throws RagError, JsonBodyError, HttpError; the client signal's reason
 */
async function readQuery({ head, body, signal }: Incoming, timeoutMs: number): Promise<Query> {
  const ms = Math.min(longestBodyMs, timeoutMs)
  const deadline = new Deadline(signal, ms, new SlowBodyError(`the body did not arrive within ${shownMs(ms)}`))
  try {
    return parseQuery(await deadline.race(readJsonBody(head, body)))
  } finally {
    deadline.end()
  }
}

const streamTimeout = (ms: number): [ms: number, error: RagError] => [
  ms,
  new RagError('REQUEST_TIMEOUT', `the answer was not complete within ${shownMs(ms)}`),
]

const withTokens = (ended: Ended, more: number): Ended =>
  'tokensUsed' in ended ? { tokensUsed: ended.tokensUsed + more } : ended

/** One request to a pipeline, from the lease of the pipeline to its release. */
class QueryRequest {
  readonly #parts: QueryParts
  readonly #lease: Lease
  readonly #deadline: Deadline
  readonly #began: number
  #isOver = false

  constructor(parts: QueryParts, lease: Lease, client: AbortSignal, began: number) {
    this.#parts = parts
    this.#lease = lease
    this.#began = began
    this.#deadline = answerDeadline(client, parts.timeoutMs(), performance.now() - began)
  }

  get #pipeline(): Pipeline {
    return this.#lease.pipeline
  }

  async answer(query: Query, signal: AbortSignal): Promise<HttpResponse> {
    try {
      const { documents, warnings, isIncomplete, tokensUsed: ofSearch } = await this.#search(query)
      for (const warning of warnings) this.#parts.onWarning(this.#pipeline.settings.name, warning)
      const question = { query: query.query, history: query.messages, documents }
      const headers = isIncomplete ? [incomplete] : []
      if (isIncomplete) this.#parts.metrics.incomplete(this.#pipeline.settings.name)
      if (query.stream) {
        this.#deadline.endAfter(...streamTimeout(this.#parts.streamTimeoutMs()))
        const texts = this.#pipeline.answerStream(question, this.#deadline.signal)
        const onEnd = (ended: Ended) => this.#end(withTokens(ended, ofSearch), signal)
        return await streamAnswer(texts, this.#deadline, onEnd, headers)
      }
      const answered = this.#pipeline.answer(question, this.#deadline.signal)
      const { answer, tokensUsed: ofAnswer } = await this.#timed('answer', answered)
      const tokensUsed = ofSearch + ofAnswer
      this.#end({ tokensUsed }, signal)
      const sources = query.include_sources && this.#pipeline.settings.allowSources
      return jsonAnswer(
        200,
        {
          answer,
          ...(sources && { sources: documents.map(sourceOf) }),
          tokens_used: tokensUsed,
        },
        headers,
      )
    } catch (error) {
      this.#end({ error }, signal)
      return renderError(error)
    }
  }

  async #search({ query, filter, top_n }: Query): Promise<SearchResult> {
    const topN = top_n ?? this.#pipeline.settings.topN
    return await this.#timed(
      'search',
      this.#pipeline.search({ query, filter, topN, timeoutMs: this.#parts.timeoutMs() }, this.#deadline.signal),
    )
  }

  async #timed<T>(stage: 'search' | 'answer', work: Promise<T>): Promise<T> {
    const began = performance.now()
    try {
      return await this.#deadline.race(work)
    } finally {
      this.#parts.metrics.stage(this.#pipeline.settings.name, stage, (performance.now() - began) / 1_000)
    }
  }

  #end(ended: Ended, client: AbortSignal): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#deadline.end()
    this.#lease.release()
    report(this.#parts, { name: this.#pipeline.settings.name, began: this.#began, ended, client })
  }
}

type Over = {
  readonly name: string
  readonly began: number
  readonly ended: Ended
  readonly client: AbortSignal
}

/** Counts and logs a completed request. */
function report({ metrics, logger }: QueryParts, { name, began, ended, client }: Over): void {
  const seconds = (performance.now() - began) / 1_000
  const error = 'error' in ended ? ended.error : undefined
  const refusal = error === undefined ? undefined : renderError(error)
  const code = error === undefined ? undefined : client.aborted ? 'CLIENT_GONE' : codeOf(error, refusal)
  metrics.request(name, code ?? 'OK', seconds)
  const line = { pipeline: name, milliseconds: Math.round(seconds * 1_000), code }
  if ('tokensUsed' in ended) logger.info({ ...line, tokens: ended.tokensUsed }, 'query answered')
  else if (client.aborted) logger.info(line, 'the client has disconnected')
  else if ((refusal?.status ?? 500) < 500 || code === 'OVERLOADED')
    logger.info({ ...line, reason: ragErrorOf(error).message }, 'query refused')
  else if (code === 'INTERNAL_ERROR') logger.error({ ...line, err: error }, 'query failed')
  else logger.error({ ...line, reason: reasonOf(ragErrorOf(error)) }, 'query failed')
}

/** The error code for metrics, in the response's format. */
function codeOf(error: unknown, refusal: HttpResponse | undefined): string {
  if (refusal?.status === 413) return 'REQUEST_TOO_LARGE'
  if (refusal?.status === 400 || refusal?.status === 415) return 'INVALID_REQUEST'
  return ragErrorOf(error).code
}

export async function answerQuery(parts: QueryParts, name: string, incoming: Incoming): Promise<HttpResponse> {
  const began = performance.now()
  const { signal } = incoming
  try {
    parts.pipelines.check(name)
  } catch (error) {
    // Unknown names from clients are neither labels nor logged.
    parts.metrics.request('', ragErrorOf(error).code, 0)
    return renderError(error)
  }
  let query: Query
  let lease: Lease
  try {
    query = await readQuery(incoming, parts.timeoutMs())
    lease = parts.pipelines.lease(name)
  } catch (error) {
    report(parts, { name, began, ended: { error }, client: signal })
    return renderError(error)
  }
  return await new QueryRequest(parts, lease, signal, began).answer(query, signal)
}
