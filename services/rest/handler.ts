/**
 * Answers a request from the current state, logs the request and counts it. A streamed response is logged when it ends.
 */
import type { Logger } from 'pino'
import type { HttpResponse, IncomingBody, RequestHead } from '../http/message.ts'
import { withForwardedPrefix } from '../http/prefix.ts'
import type { Pool } from '../postgres/pool.ts'
import type { Loader } from './engine/loader.ts'
import type { Metrics } from './engine/metrics.ts'
import { answerRequest } from './engine/service.ts'
import { schemaNotLoaded } from './errors/catalogue.ts'
import { errorResponse, restErrorOf } from './errors/index.ts'
import type { RestError } from './errors/rest-error.ts'
import type { RefusalLog } from './refusals/log.ts'

type Answered = Awaited<ReturnType<typeof answerRequest>>
type Stream = NonNullable<HttpResponse['stream']>

/** nginx's status code for a request whose client disconnected. */
const clientClosedRequest = 499

type HandlerParts = {
  readonly loader: Loader
  readonly pool: Pool
  readonly metrics: Metrics
  readonly refusals: RefusalLog
  readonly logger: Logger
}

export class RequestHandler {
  readonly #parts: HandlerParts

  constructor(parts: HandlerParts) {
    this.#parts = parts
  }

  readonly handle = async (request: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> => {
    const { pool, metrics } = this.#parts
    const start = performance.now()
    const { state } = this.#parts.loader
    const answered = state === undefined ? this.#notLoaded() : await answerRequest(state, pool, request, body, signal)
    const { role } = answered
    const response = withForwardedPrefix(answered.response, request)
    const { method, path } = request
    const status = signal.aborted ? clientClosedRequest : response.status
    const seconds = (performance.now() - start) / 1_000
    metrics.request(method, status, seconds)
    const sql = state?.configuration.logQuery ? answered.sql : undefined
    const line = { method, path, status, role, milliseconds: Math.round(seconds * 1_000), sql }
    if (answered.refused !== undefined && state?.configuration.logRefusals)
      this.#parts.refusals.log(answered.refused, { method, path })
    if (response.stream !== undefined && !signal.aborted)
      return { ...response, stream: this.#logged(response.stream, line, signal) }
    if (signal.aborted) this.#parts.logger.info(line, 'the client has disconnected')
    else this.#log(status, line, answered.error)
    return response
  }

  #notLoaded(): Answered {
    const isVerbose = this.#parts.loader.base.clientErrorVerbosity === 'verbose'
    const response = errorResponse(schemaNotLoaded(), isVerbose)
    return { response, role: undefined, error: undefined, sql: undefined, refused: undefined }
  }

  #log(status: number, line: object, error: RestError | undefined): void {
    const { logger } = this.#parts
    const code = error?.code
    if (status >= 500) logger.error({ ...line, code, reason: error?.message, cause: causeOf(error) }, 'request failed')
    else if (status >= 400) logger.warn({ ...line, code }, 'request refused')
    else if (logger.isLevelEnabled('info')) logger.info(line, 'request answered')
  }

  #logged(stream: Stream, line: object, signal: AbortSignal): Stream {
    const { logger } = this.#parts
    return async out => {
      try {
        await stream(out)
        logger.info(line, 'request answered')
      } catch (error) {
        const { code, message } = restErrorOf(error, false)
        if (signal.aborted) logger.info(line, 'the client has disconnected')
        else logger.error({ ...line, code, reason: message }, 'a streamed response was aborted')
        throw error
      }
    }
  }
}

/** The stack of an unexpected error, for the log only. */
function causeOf(error: RestError | undefined): string | undefined {
  return error?.code === 'RSTX00' && error.cause instanceof Error
    ? (error.cause.stack ?? error.cause.message)
    : undefined
}
