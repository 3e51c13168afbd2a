/**
 * One request to a provider with a streamed response: server-sent events, or a line of JSON for each piece. Temporary
 * errors are retried until the response starts, but never later. The time limit applies to the start and to each pause
 * between two pieces.
 */
import type { ProviderResponse } from './client.ts'
import type { Endpoint } from './endpoint.ts'
import { ProviderError } from './errors.ts'
import { brokenOff, detailOf, parseJson, type Sent, send, withRetries } from './exchange.ts'

/** `events`: text/event-stream, of which only the data matters. `lines`: one line of JSON for each piece. */
export type StreamFormat = 'events' | 'lines'

type StreamQuestion = Sent & { readonly format: StreamFormat; readonly maximumBytes: number }

type Begun = { readonly response: ProviderResponse; readonly body: AbortController }

/** Starts the request, which lasts longer than the time limit of its start. */
async function begin(endpoint: Endpoint, question: StreamQuestion, limit: AbortSignal): Promise<Begun> {
  const body = new AbortController()
  const abort = () => body.abort(limit.reason)
  if (limit.aborted) abort()
  limit.addEventListener('abort', abort)
  try {
    const accept = question.format === 'events' ? 'text/event-stream' : 'application/x-ndjson'
    return { response: await send(endpoint, question, accept, body.signal), body }
  } finally {
    limit.removeEventListener('abort', abort)
  }
}

/** Returns the JSON of a line; undefined if it has none. */
function dataOf(line: string, format: StreamFormat): string | undefined {
  const data = (format === 'lines' ? line : line.startsWith('data:') ? line.slice(5) : '').trim()
  return data === '' || data === '[DONE]' ? undefined : data
}

/** Parses a piece. A provider that fails midway reports its error in a piece. */
function pieceOf(data: string, { provider, secrets }: Endpoint): unknown {
  const piece = parseJson(data, provider)
  if (typeof piece === 'object' && piece !== null && 'error' in piece && piece.error)
    throw new ProviderError(
      'limited',
      provider,
      'failed in the middle of its response',
      undefined,
      detailOf(data, secrets),
    )
  return piece
}

async function* linesOf({ status, body }: ProviderResponse, maximumBytes: number, provider: string, pause: Silence) {
  const decoder = new TextDecoder()
  // A long line arrives in many pieces, which are joined once.
  let rest: string[] = []
  let length = 0
  pause.begin()
  for await (const bytes of body) {
    pause.end()
    length += bytes.length
    if (length > maximumBytes)
      throw new ProviderError('malformed', provider, `sent more than ${maximumBytes} bytes`, status)
    const [first = '', ...others] = decoder.decode(bytes, { stream: true }).split('\n')
    rest.push(first)
    if (others.length > 0) {
      yield rest.join('')
      rest = [others.pop() ?? '']
      yield* others
    }
    pause.begin()
  }
  pause.end()
  const last = rest.join('')
  if (last !== '') yield last
}

/** Ends the request if nothing arrives for too long. Time that the reader of the response needs does not count. */
class Silence {
  readonly #limitMs: number
  readonly #body: AbortController
  #timer: NodeJS.Timeout | undefined
  isTooLong = false

  constructor(limitMs: number, body: AbortController) {
    this.#limitMs = limitMs
    this.#body = body
  }

  begin(): void {
    this.#timer = setTimeout(() => {
      this.isTooLong = true
      this.#body.abort()
    }, this.#limitMs)
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}

/**
 * Yields the pieces as they arrive. Ending the iteration ends the request.
 * @throws ProviderError; the signal's reason
 */
export async function* streamPieces(
  endpoint: Endpoint,
  question: StreamQuestion,
  signal: AbortSignal,
): AsyncGenerator<unknown> {
  const { provider, attemptTimeoutMs: pauseMs } = endpoint
  const { response, body } = await withRetries(endpoint, signal, limit => begin(endpoint, question, limit))
  const silence = new Silence(pauseMs, body)
  const abort = () => body.abort(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  try {
    for await (const line of linesOf(response, question.maximumBytes, provider, silence)) {
      const data = dataOf(line, question.format)
      if (data !== undefined) yield pieceOf(data, endpoint)
    }
  } catch (error) {
    signal.throwIfAborted()
    if (silence.isTooLong) throw new ProviderError('timeout', provider, `sent nothing more for ${pauseMs} ms`)
    if (error instanceof ProviderError) throw error
    throw brokenOff(error, endpoint).failure
  } finally {
    silence.end()
    signal.removeEventListener('abort', abort)
    body.abort()
  }
}
