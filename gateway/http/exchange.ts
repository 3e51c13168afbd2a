/**
 * One request and its response. The rules are checked once, when the request arrives, so a later change does not abort
 * the response. If either side disconnects, the other side is closed.
 */
import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import type { Logger } from 'pino'
import { pathOf } from '../../routes/request-target.ts'
import type { ServiceType } from '../../routes/route.ts'
import type { Resolve } from '../connections.ts'
import type { Forward, HttpDecision, HttpRequestFacts } from './decision.ts'
import { type BodyLength, bodyLength, isPreflight, requestHeaders, responseHeaders } from './headers.ts'
import type { HttpLimits } from './limits.ts'
import type { HttpMetrics } from './metrics.ts'
import { serviceOf } from './paths.ts'
import {
  badGateway,
  gatewayTimeout,
  type HttpRefusal,
  largeBody,
  malformedRequest,
  noUpgrade,
  outOfTouch,
  refusalBody,
  tooManyRequests,
  unreachable,
} from './refusal.ts'
import { type ClientSide, RequestBody } from './request-body.ts'
import { openUpstream, type UpstreamRequest } from './upstream.ts'

export type ExchangeContext = {
  admitting: () => boolean
  decide: (facts: HttpRequestFacts) => HttpDecision
  resolve: Resolve
  agent: Agent
  limits: HttpLimits
  metrics: HttpMetrics
  /** Counts a request of a service. Returns false if the service has too many requests. */
  claim: (service: string) => boolean
  release: (service: string) => void
  now: () => number
  logger: Logger
}

/** A response of either HTTP version. */
export type ClientResponse = Http2ServerResponse & { flushHeaders(): void }

type Client = {
  request: ClientSide
  response: ClientResponse
  /** The client's address, normalised. */
  address: string
  sni: string | undefined
  /** Whether the client waits for 100 (Continue) before it sends its body. */
  expectsContinue: boolean
  /** Closes the connection, or the HTTP/2 stream. `isAnswered`: the client has the complete response. */
  close: (isAnswered: boolean) => void
}

/** Safe methods (RFC 9110 section 9.2.1): the only requests that may be sent a second time. */
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])
const clientClosedRequest = 499

export class Exchange {
  readonly #context: ExchangeContext
  readonly #client: Client
  readonly #startedAt: number
  readonly #body: RequestBody
  readonly #ended: (isAbandoned: boolean) => void
  /** Undefined if the length is ambiguous. */
  readonly #length: BodyLength | undefined
  readonly #hasBody: boolean
  #service: ServiceType | undefined
  #label: string | undefined
  #claimed: string | undefined
  #upstream: ClientRequest | undefined
  #isAnswered = false
  #isOver = false
  #code = clientClosedRequest
  /** The time since which the service delays the request, or the client does not read its response. */
  #waitingSince: number | undefined
  #stalledSince: number | undefined

  /** Calls `ended` exactly once. */
  constructor(context: ExchangeContext, client: Client, ended: (isAbandoned: boolean) => void) {
    this.#context = context
    this.#client = client
    this.#startedAt = context.now()
    this.#ended = ended
    const { request } = client
    this.#length = bodyLength(request.headers, request.httpVersion)
    this.#hasBody =
      'stream' in request ? !request.stream.endAfterHeaders : this.#length !== 'none' && this.#length !== 0
    const expected = typeof this.#length === 'number' ? this.#length : undefined
    this.#body = new RequestBody(request, context.limits, expected, refusal => this.#failBody(refusal))
    request.on('error', () => {})
    client.response.on('error', () => {})
    client.response.on('close', () => this.#close())
  }

  run(): void {
    const length = this.#length
    const { bodyBytes } = this.#context.limits
    const found = length === undefined ? malformedRequest('the length of the body is ambiguous') : this.#decide()
    if (!('kind' in found)) this.#refuse(found)
    else if (typeof length === 'number' && length > bodyBytes) this.#refuse(largeBody(bodyBytes))
    else this.#send(found, false)
  }

  /**
   * Node accepts some requests that it then refuses to send: those with methods and header values that HTTP/1.1 does
   * not allow.
   */
  #send(forward: Forward, isAgain: boolean): void {
    this.#forward(forward, isAgain).catch(() => this.#refuse(malformedRequest('the request cannot be forwarded')))
  }

  /** Called at intervals. */
  check(now: number): void {
    const { limits } = this.#context
    if (this.#body.check(now) === 'overdue') {
      this.#client.response.end()
      this.#client.close(true)
    } else if (this.#stalledSince !== undefined && now - this.#stalledSince >= limits.stalledMs)
      this.#client.close(false)
    else if (this.#waitingSince !== undefined && now - this.#waitingSince >= limits.answerMs && !this.#isAnswered)
      this.#refuse(gatewayTimeout(this.#service ?? 'rest'))
  }

  /** The target of the request, or its refusal. */
  #decide(): Forward | HttpRefusal {
    const { admitting, decide } = this.#context
    const { request, address, sni } = this.#client
    if (!admitting()) return outOfTouch
    const host = hostOf(request)
    if (host === undefined) return malformedRequest('the request has more than one host name')
    const decision = decide({
      ...{ host, sni, address, target: request.url ?? '' },
      authorization: request.headers.authorization,
      isPreflight: isPreflight(request.method, request.headers, this.#hasBody),
    })
    if (decision.kind === 'refuse') {
      this.#service = decision.found?.service
      return decision.refusal
    }
    this.#service = serviceOf(decision.location.upstream)
    this.#label = decision.label
    const { upgrade } = request.headers
    if (upgrade !== undefined && /websocket/i.test(upgrade)) return noUpgrade
    const claimed = `${decision.target.namespace}/${decision.target.service}`
    if (!this.#context.claim(claimed)) return tooManyRequests
    this.#claimed = claimed
    return decision
  }

  async #forward(forward: Forward, isAgain: boolean): Promise<void> {
    const { agent, resolve, limits, now } = this.#context
    const upstream = await openUpstream({
      agent: isAgain ? false : agent,
      resolve,
      target: forward.target,
      upstream: this.#upstreamRequest(forward),
      connectMs: limits.connectMs,
    })
    if (this.#isOver) {
      upstream?.destroy()
      return
    }
    if (upstream === undefined) return this.#refuse(unreachable(serviceOf(forward.location.upstream)))
    this.#upstream = upstream
    this.#waitingSince = now()
    upstream.on('response', answer => this.#answer(answer))
    upstream.on('error', error => {
      if (this.#upstream !== upstream || this.#isAnswered || this.#isOver) return
      const isStale = upstream.reusedSocket && !isAgain && !this.#hasBody
      if (isStale && safeMethods.has(upstream.method)) this.#send(forward, true)
      else this.#fail(error)
    })
    if (this.#hasBody && this.#client.expectsContinue) this.#client.response.writeContinue()
    if (this.#hasBody) this.#body.sendTo(upstream, now())
    else upstream.end()
  }

  #upstreamRequest({ location, isAuthorized }: Forward): UpstreamRequest {
    const { request, address } = this.#client
    const { headers, method = 'GET' } = request
    const passed = requestHeaders(
      headers,
      { host: hostOf(request) ?? '', address, prefix: location.prefix },
      !isAuthorized,
    )
    const length = headers['content-length']
    if (length !== undefined) passed['content-length'] = length
    else if (this.#hasBody) passed['transfer-encoding'] = 'chunked'
    else if (!safeMethods.has(method) && method !== 'DELETE') passed['content-length'] = '0'
    return { method, path: location.target, headers: passed }
  }

  #answer(answer: IncomingMessage): void {
    const { response } = this.#client
    if (this.#isAnswered || this.#isOver) {
      answer.destroy()
      return
    }
    const { statusCode = 0 } = answer
    // HTTP/2 only has these statuses.
    if (statusCode < 200 || statusCode > 599) {
      answer.destroy()
      this.#refuse(badGateway(this.#service ?? 'rest'))
      return
    }
    this.#isAnswered = true
    this.#code = statusCode
    answer.on('error', () => this.#client.close(false))
    response.writeHead(this.#code, this.#finalHeaders(answer))
    if (answer.headers['content-type']?.startsWith('text/event-stream') === true) response.flushHeaders()
    else setImmediate(() => !this.#isOver && response.flushHeaders())
    answer.on('data', (chunk: Buffer) => {
      if (response.write(chunk) || this.#isOver) return
      answer.pause()
      this.#stalledSince = this.#context.now()
      response.once('drain', () => {
        this.#stalledSince = undefined
        answer.resume()
      })
    })
    answer.on('end', () => {
      if (!answer.complete) return this.#client.close(false)
      if (Object.keys(answer.trailers).length > 0) response.addTrailers(answer.trailers)
      this.#finish()
    })
  }

  /** If the request of an HTTP/1.1 connection is not read to its end, no other request can use the connection. */
  #finalHeaders({ headers }: IncomingMessage) {
    const final = responseHeaders(headers)
    return this.#mustClose() ? { ...final, connection: 'close' } : final
  }

  #mustClose(): boolean {
    return this.#client.request.httpVersionMajor === 1 && this.#hasBody && !this.#body.isOver
  }

  /** After a malformed request, the next bytes on its connection may be misread. */
  #isSuspect({ status }: HttpRefusal): boolean {
    return status === 400 && this.#client.request.httpVersionMajor === 1
  }

  /** Closing a connection with unread bytes may lose the response, so the rest of a body is read first. */
  #finish(): void {
    const { response } = this.#client
    if (!this.#hasBody || this.#body.isOver || this.#length === undefined) response.end()
    else this.#body.discard(this.#context.now(), () => response.end())
  }

  #failBody(refusal: HttpRefusal | undefined): void {
    if (this.#isOver) return
    if (refusal === undefined || this.#isAnswered) this.#client.close(false)
    else this.#refuse(refusal)
  }

  #fail(error: Error): void {
    const { logger } = this.#context
    const code = 'code' in error ? error.code : undefined
    logger.warn(
      { label: this.#label, service: this.#service, code },
      'a service closed a connection without a response',
    )
    this.#refuse(badGateway(this.#service ?? 'rest'))
  }

  #refuse(refusal: HttpRefusal): void {
    if (this.#isAnswered || this.#isOver) return
    const { request, response } = this.#client
    this.#isAnswered = true
    this.#code = refusal.status
    this.#upstream?.destroy()
    const body = refusalBody(refusal)
    response.writeHead(refusal.status, {
      ...refusal.headers,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      ...(this.#mustClose() || this.#isSuspect(refusal) ? { connection: 'close' } : {}),
    })
    if (request.method !== 'HEAD') response.write(body)
    this.#finish()
  }

  #close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#upstream?.destroy()
    if (this.#claimed !== undefined) this.#context.release(this.#claimed)
    this.#report()
    this.#ended(!this.#isAnswered)
  }

  #report(): void {
    const { metrics, logger, now } = this.#context
    const ms = now() - this.#startedAt
    metrics.count(this.#service, this.#code, ms / 1000)
    const { method, url = '' } = this.#client.request
    const path = pathOf(url).slice(0, 200)
    logger.debug({ label: this.#label, service: this.#service, method, path, code: this.#code, ms }, 'a request ended')
  }
}

/** The host name of a request; undefined if it has two. */
function hostOf(request: ClientSide): string | undefined {
  const { headers } = request
  if (!('stream' in request)) return (request.headersDistinct.host ?? []).length > 1 ? undefined : (headers.host ?? '')
  const { authority } = request
  return headers.host === undefined || headers.host === authority ? authority : undefined
}
