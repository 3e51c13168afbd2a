/**
 * One JSON request to a provider over HTTP, with a time limit and a size limit. Retries temporary errors (too many
 * requests, provider faults, a broken connection) a few times, within the time limit. Does not follow redirects,
 * because another server would receive the key.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { z } from 'zod'
import { type ProviderResponse, request } from './client.ts'
import type { Endpoint } from './endpoint.ts'
import { ProviderError } from './errors.ts'

/** A request to a provider. */
export type Sent = {
  readonly path: string
  /** The JSON body of a POST request; absent: a GET request. */
  readonly body?: object
  /** Headers in addition to the endpoint's headers. */
  readonly headers?: Readonly<Record<string, string>>
}

export type Question<Answer> = Sent & { readonly answer: z.ZodType<Answer>; readonly maximumBytes: number }

/** A broken connection and a timeout are not caused by load on the provider, so each is retried once. */
const otherRetries = 1
const firstPauseMs = 250

/** A temporary failure that permits a retry, and the minimum delay before it. */
class Passing extends Error {
  readonly failure: ProviderError
  readonly waitMs: number

  constructor(failure: ProviderError, waitMs = 0) {
    super(failure.message)
    this.failure = failure
    this.waitMs = waitMs
  }
}

/** Parses a number of seconds or a date (RFC 9110 section 10.2.3). Returns 0 for other values. */
export function retryAfterMs(header: string | undefined, now: number): number {
  if (header === undefined) return 0
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000
  const date = Date.parse(header)
  return Number.isNaN(date) ? 0 : Math.max(0, date - now)
}

function readBounded({ status, body }: ProviderResponse, maximumBytes: number, provider: string): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const pieces: Buffer[] = []
  let length = 0
  body.on('data', (piece: Buffer) => {
    length += piece.length
    pieces.push(piece)
    if (length <= maximumBytes) return
    reject(new ProviderError('malformed', provider, `sent more than ${maximumBytes} bytes`, status))
    body.destroy()
  })
  body.on('end', () => resolve(Buffer.concat(pieces)))
  body.on('error', reject)
  return promise
}

const maximumDetail = 300
const maximumErrorBytes = 65_536

/** Returns a provider's error message in one line, without control characters and secrets. */
export function detailOf(text: string, secrets: readonly string[]): string {
  const errorJson =
    /"message"\s*:\s*("(?:[^"\\]|\\.)*")/.exec(text)?.[1] ??
    /"(?:error|detail)"\s*:\s*("(?:[^"\\]|\\.)*")/.exec(text)?.[1]
  let plain = text
  try {
    if (errorJson !== undefined) plain = String(JSON.parse(errorJson))
  } catch {
    // The response is not JSON, so its text is the message.
  }
  const line = secrets
    .reduce((all, secret) => all.replaceAll(secret, '***'), plain)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  return line.length > maximumDetail ? `${line.slice(0, maximumDetail)}...` : line
}

function failureOf(
  { status, headers }: ProviderResponse,
  text: string,
  { provider, secrets }: Endpoint,
): ProviderError | Passing {
  const detail = detailOf(text, secrets)
  if (status === 401 || status === 403) {
    // Messages about a key often contain a part of the key, so they are omitted.
    return new ProviderError('refused', provider, `refused the API key (HTTP ${status})`, status)
  }
  if (status === 429 || status >= 500) {
    const problem = status === 429 ? 'limits the request rate' : 'failed'
    const failure = new ProviderError('limited', provider, `${problem} (HTTP ${status})`, status, detail)
    return new Passing(failure, retryAfterMs(headers['retry-after'], Date.now()))
  }
  const missing = status === 404 ? missingModel(detail) : undefined
  if (missing !== undefined) return new ProviderError('refused', provider, missing, status)
  return new ProviderError('refused', provider, `refused the request (HTTP ${status})`, status, detail)
}

/**
 * Reads the model name from Ollama's error. Ollama's own API and its OpenAI-compatible API use texts that differ
 * between versions.
 */
function missingModel(detail: string): string | undefined {
  const [, name] = /\bmodel ['"]([\w.:/@-]{1,200})['"] not found/.exec(detail) ?? []
  return name === undefined ? undefined : `has no model ${name} (HTTP 404); run: ollama pull ${name}`
}

/** A hint is useful for Ollama, because it runs on the user's own machine. */
const advice: Readonly<Partial<Record<string, { readonly late: string; readonly unreachable: string }>>> = {
  ollama: {
    late: '; it may still be loading the model: raise per_attempt_timeout, or load the model with ollama run',
    unreachable: '; is it running? Start it with: ollama serve',
  },
}

/** Returns a successful response. The caller must read its body. */
export async function send(
  endpoint: Endpoint,
  { path, body, headers: extra }: Sent,
  accept: string,
  signal: AbortSignal,
): Promise<ProviderResponse> {
  const { provider, base, headers } = endpoint
  const outgoing = {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...extra, ...headers, ...(body !== undefined && { 'content-type': 'application/json' }), accept },
    body: body === undefined ? undefined : JSON.stringify(body),
  } as const
  const response = await request(base + path, outgoing, signal)
  if (response.status >= 200 && response.status <= 299) return response
  const text = await readBounded(response, maximumErrorBytes, provider).catch(() => Buffer.alloc(0))
  throw failureOf(response, text.toString('utf8'), endpoint)
}

async function attempt<Answer>(endpoint: Endpoint, question: Question<Answer>, signal: AbortSignal): Promise<Answer> {
  const { provider } = endpoint
  const response = await send(endpoint, question, 'application/json', signal)
  const bytes = await readBounded(response, question.maximumBytes, provider)
  return checkedAnswer(question.answer, parseJson(bytes.toString('utf8'), provider), provider)
}

/** @throws ProviderError with the path of the invalid part of the response */
export function checkedAnswer<Answer>(answer: z.ZodType<Answer>, value: unknown, provider: string): Answer {
  const parsed = answer.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const path = issue?.path.join('.') || 'the answer'
  throw new ProviderError('malformed', provider, `sent an unexpected response: ${path}: ${issue?.message ?? 'invalid'}`)
}

export function parseJson(text: string, provider: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProviderError('malformed', provider, 'sent a response that is not JSON')
  }
}

const isRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'

/** Errors of a connection may contain the URL, so the message has only the system's error code. */
export function brokenOff(error: unknown, { provider, base }: Endpoint): Passing {
  const because = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : ''
  const hint = isRefused(error) ? (advice[provider]?.unreachable ?? '') : ''
  const problem = `cannot be reached at ${new URL(base).host}${because}${hint}`
  return new Passing(new ProviderError('unreachable', provider, problem))
}

/**
 * Sends the request and checks the response.
 * @throws ProviderError; the signal's reason
 */
export const exchange = <Answer>(
  endpoint: Endpoint,
  question: Question<Answer>,
  signal: AbortSignal,
): Promise<Answer> => withRetries(endpoint, signal, limit => attempt(endpoint, question, limit))

/**
 * Aborts an attempt with the request's signal, or after a timeout. Must release its listener and timer, because many
 * requests may run during one attempt.
 */
class Limit {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #timer: NodeJS.Timeout
  readonly #abort = () => this.#controller.abort(this.#outer.reason)
  isTimeUp = false

  constructor(outer: AbortSignal, ms: number) {
    this.#outer = outer
    outer.addEventListener('abort', this.#abort, { once: true })
    this.#timer = setTimeout(() => {
      this.isTimeUp = true
      this.#controller.abort()
    }, ms)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener('abort', this.#abort)
  }
}

/** Converts the failure of one attempt to an error of this module. `deadline`: the deadline of the complete request. */
async function triedOnce<Result>(
  endpoint: Endpoint,
  deadline: number,
  signal: AbortSignal,
  attemptOnce: (limit: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { timeoutMs, attemptTimeoutMs } = endpoint
  const remainingMs = deadline - performance.now()
  const limit = new Limit(signal, Math.max(0, Math.min(remainingMs, attemptTimeoutMs)))
  try {
    return await attemptOnce(limit.signal)
  } catch (error) {
    signal.throwIfAborted()
    if (limit.isTimeUp && remainingMs <= attemptTimeoutMs) throw lateAfter(timeoutMs, endpoint)
    if (limit.isTimeUp) throw new Passing(lateAfter(attemptTimeoutMs, endpoint))
    throw error instanceof ProviderError || error instanceof Passing ? error : brokenOff(error, endpoint)
  } finally {
    limit.end()
  }
}

const lateAfter = (ms: number, { provider }: Endpoint) =>
  new ProviderError('timeout', provider, `did not answer within ${ms} ms${advice[provider]?.late ?? ''}`)

/**
 * Retries until an attempt succeeds or fails permanently, or until the time limit passes. The signal and the time
 * limits abort `limit`.
 * @throws ProviderError; the signal's reason
 */
export async function withRetries<Result>(
  endpoint: Endpoint,
  signal: AbortSignal,
  attemptOnce: (limit: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const deadline = performance.now() + endpoint.timeoutMs
  const retriesLeft = { limited: endpoint.retries, other: otherRetries }
  let pauseMs = firstPauseMs
  for (;;) {
    signal.throwIfAborted()
    try {
      return await triedOnce(endpoint, deadline, signal, attemptOnce)
    } catch (error) {
      if (!(error instanceof Passing)) throw error
      const { failure, waitMs } = error
      const wait = Math.max(waitMs, pauseMs * (0.75 + Math.random() / 2))
      pauseMs *= 2
      const isLast = retriesLeft[failure.kind === 'limited' ? 'limited' : 'other']-- <= 0
      if (isLast || wait > endpoint.longestPauseMs || performance.now() + wait >= deadline) throw failure
      await pause(wait, undefined, { signal }).catch(() => undefined)
    }
  }
}
