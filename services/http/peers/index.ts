/**
 * Forwards requests between replicas. If a request needs state in another process's memory, the replica forwards the
 * request to that process. No replica forwards a request that another replica has forwarded. Streams are passed on as
 * they arrive. If the client disconnects, the replica aborts the forwarded request.
 */
import { Agent, type IncomingMessage, request as requestHttp } from 'node:http'
import type { HttpResponse, IncomingBody, RequestHead } from '../message.ts'
import { readBody } from '../read-body.ts'
import { Envelopes, envelopeBytes } from './envelope.ts'
import { type HandleContent, Handles, type Process } from './handles.ts'
import type { PeerSettings } from './types.ts'

/**
 * The path for forwarded requests. The metrics count a forwarded request once, on the replica that the client is
 * connected to.
 */
export const peerPath = '/.espalier/peer'
const proofHeader = 'x-espalier-peer'
const connectMs = 2_000
/** The maximum number of concurrent forwarded requests. */
const mostForwarded = 5_000
/**
 * The headers that the client receives from the other replica's response. The replica that the client is
 * connected to omits all other headers, and adds its own headers.
 */
const passedOn = [
  ...['content-type', 'cache-control', 'x-accel-buffering', 'mcp-session-id', 'www-authenticate', 'retry-after'],
  'allow',
]

type ForwardedRequest = { readonly head: RequestHead; readonly body: Buffer; readonly signal: AbortSignal }
type Answer = (head: RequestHead, body: IncomingBody) => Promise<HttpResponse>

/** Too many requests are being forwarded, or the connection ended before the other replica answered. */
export class PeerFailure extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'PeerFailure'
  }
}

/** Wraps a body that is already in memory, so that it can be read again. */
export const readAgain = (bytes: Buffer, { reserve }: IncomingBody): IncomingBody => ({
  length: bytes.length,
  read: async into => into.push(bytes),
  reserve,
})

export class Peers {
  readonly #handles: Handles
  readonly #envelopes: Envelopes
  readonly #agent = new Agent({ keepAlive: true, timeout: 60_000 })
  readonly #forwarded = new WeakSet<RequestHead>()
  #open = 0

  constructor(settings: PeerSettings, service: string, now: () => number = Date.now) {
    this.#handles = new Handles(settings, service)
    this.#envelopes = new Envelopes(settings.secret, service, this.#handles.self, now)
  }

  mint(kind: string, inner: string): string {
    return this.#handles.mint(kind, inner)
  }

  read(kind: string, handle: string): HandleContent {
    return this.#handles.read(kind, handle)
  }

  /**
   * @returns whether another replica forwarded the request; if so, this process must answer the request, and not
   * forward it
   */
  isForwarded(head: RequestHead): boolean {
    return this.#forwarded.has(head)
  }

  /**
   * Answers a request that another replica forwarded.
   * @returns undefined if the request is for another path
   * @throws HttpError; what `answer` throws
   */
  async serve(head: RequestHead, body: IncomingBody, answer: Answer): Promise<HttpResponse | undefined> {
    if (head.path !== peerPath) return undefined
    const opened = head.method === 'POST' ? this.#envelopes.open(await readBody(body)) : undefined
    if (opened === undefined) return { status: 404, headers: [], body: '' }
    this.#forwarded.add(opened.head)
    const response = await answer(opened.head, readAgain(opened.body, body))
    return { ...response, headers: [...response.headers, [proofHeader, opened.proof]] }
  }

  /**
   * @returns undefined if the process `to` cannot be reached, or does not prove that it is a replica
   * @throws PeerFailure if too many requests are being forwarded, or if the connection ends before the response; the
   *   signal's reason if the signal is aborted
   */
  async forward(to: Process, forwarded: ForwardedRequest): Promise<HttpResponse | undefined> {
    if (this.#open >= mostForwarded)
      throw new PeerFailure('too many requests are being forwarded to other replicas; try again')
    const sealed = this.#envelopes.seal(to, forwarded)
    this.#open += 1
    let isCounted = true
    const release = () => {
      if (isCounted) this.#open -= 1
      isCounted = false
    }
    try {
      const response = await this.#send(to, sealed.bytes, forwarded.signal)
      response.once('close', release)
      if (sealed.isProof(response.headers[proofHeader])) return answerOf(response)
      response.destroy()
      return undefined
    } catch (error) {
      release()
      forwarded.signal.throwIfAborted()
      if (error instanceof NotConnected) return undefined
      throw new PeerFailure('the connection to another replica ended before the replica answered', { cause: error })
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #send(to: Process, bytes: Buffer, signal: AbortSignal, isAgain = false): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers = { 'Content-Type': 'application/octet-stream', 'Content-Length': bytes.length }
      const { host, port } = to
      const request = requestHttp({ host, port, path: peerPath, method: 'POST', headers, agent: this.#agent })
      let isConnected = false
      const late = setTimeout(() => request.destroy(new Error('timeout while connecting')), connectMs)
      const connected = () => {
        isConnected = true
        clearTimeout(late)
      }
      const disconnect = () => request.destroy()
      request.once('socket', socket => {
        if (socket.connecting) socket.once('connect', connected)
        else connected()
      })
      signal.addEventListener('abort', disconnect)
      request.once('close', () => {
        clearTimeout(late)
        signal.removeEventListener('abort', disconnect)
      })
      request.once('response', resolve)
      request.on('error', error => {
        // The other replica may have closed the idle connection. A retry is safe: if that replica has received the
        // request, it refuses the second copy.
        if (request.reusedSocket && !isAgain && !signal.aborted) return resolve(this.#send(to, bytes, signal, true))
        reject(isConnected ? error : new NotConnected(error))
      })
      if (signal.aborted) disconnect()
      else request.end(bytes)
    })
  }
}

/** The connection to the address failed, or took longer than `connectMs`. */
class NotConnected extends Error {
  constructor(cause: unknown) {
    super('could not connect to the replica', { cause })
  }
}

function answerOf(response: IncomingMessage): HttpResponse {
  const { statusCode: status = 502, headers } = response
  const passedHeaders = passedOn.flatMap(name => {
    const value = headers[name]
    return typeof value === 'string' ? [[name, value] as const] : []
  })
  const length = headers['content-length']
  if (length === '0' || status === 204) {
    response.resume()
    return { status, headers: passedHeaders, body: length === undefined ? undefined : '' }
  }
  return {
    status,
    headers: passedHeaders,
    body: undefined,
    streamLength: length === undefined ? undefined : Number(length),
    stream: async out => {
      for await (const chunk of response) if (!out.write(chunk)) await out.drained()
    },
  }
}

/** The number of bytes that a server must add to its body limit for envelopes from replicas. */
export { envelopeBytes }
