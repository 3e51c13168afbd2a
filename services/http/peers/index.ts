/**
 * Replicas that answer for one another. A request for what another process has in its memory is forwarded to that process, once: what has been forwarded is never forwarded again. Streams pass as they
 * arrive, and a client that leaves ends the forwarded request too.
 */
import { Agent, type IncomingMessage, request as requestHttp } from 'node:http'
import type { HttpResponse, IncomingBody, RequestHead } from '../message.ts'
import { readBody } from '../read-body.ts'
import { Envelopes, envelopeBytes } from './envelope.ts'
import { Handles, type Place, type Process } from './handles.ts'
import type { PeerSettings } from './types.ts'

const path = '/.espalier/peer'
const proofHeader = 'x-espalier-peer'
const connectMs = 2_000
/** Requests that are forwarded at once. */
const mostForwarded = 5_000
/** What another replica's answer says to the client; all else is added by the server that the client is connected to. */
const passedOn = [
  ...['content-type', 'cache-control', 'x-accel-buffering', 'mcp-session-id', 'www-authenticate', 'retry-after'],
  'allow',
]

type Given = { readonly head: RequestHead; readonly body: Buffer; readonly signal: AbortSignal }
type Answer = (head: RequestHead, body: IncomingBody) => Promise<HttpResponse>

/** The process is there, and has ended the connection before it answered. */
export class PeerFailure extends Error {
  constructor(cause: unknown) {
    super('another replica ended before it answered', { cause })
    this.name = 'PeerFailure'
  }
}

/** A body that has been read, to be read again. */
export const readAgain = (bytes: Buffer, { leavesRoomFor }: IncomingBody): IncomingBody => ({
  length: bytes.length,
  read: async into => into.push(bytes),
  leavesRoomFor,
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

  read(kind: string, handle: string): Place {
    return this.#handles.read(kind, handle)
  }

  /** @returns whether it arrived from another replica, so that this process answers it whatever it finds */
  isForwarded(head: RequestHead): boolean {
    return this.#forwarded.has(head)
  }

  /** Answers what another replica has forwarded. @returns undefined if the request is for another path @throws HttpError; what `answer` throws */
  async serve(head: RequestHead, body: IncomingBody, answer: Answer): Promise<HttpResponse | undefined> {
    if (head.path !== path) return undefined
    const opened = head.method === 'POST' ? this.#envelopes.open(await readBody(body)) : undefined
    if (opened === undefined) return { status: 404, headers: [], body: '' }
    this.#forwarded.add(opened.head)
    const response = await answer(opened.head, readAgain(opened.body, body))
    return { ...response, headers: [...response.headers, [proofHeader, opened.proof]] }
  }

  /** @returns undefined if that process is gone @throws PeerFailure if it ends before it answers; what the signal is aborted with */
  async forward(to: Process, given: Given): Promise<HttpResponse | undefined> {
    if (this.#open >= mostForwarded) throw new PeerFailure('too many requests are forwarded')
    const sealed = this.#envelopes.seal(to, given)
    this.#open += 1
    let isHeld = true
    const release = () => {
      if (isHeld) this.#open -= 1
      isHeld = false
    }
    try {
      const response = await this.#send(to, sealed.bytes, given.signal)
      response.once('close', release)
      if (sealed.isProof(response.headers[proofHeader])) return answerOf(response)
      response.destroy()
      return undefined
    } catch (error) {
      release()
      given.signal.throwIfAborted()
      if (error instanceof Gone) return undefined
      throw new PeerFailure(error)
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #send(to: Process, bytes: Buffer, signal: AbortSignal, isAgain = false): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers = { 'Content-Type': 'application/octet-stream', 'Content-Length': bytes.length }
      const { host, port } = to
      const request = requestHttp({ host, port, path, method: 'POST', headers, agent: this.#agent })
      let isConnected = false
      const late = setTimeout(() => request.destroy(new Error('no connection in time')), connectMs)
      const connected = () => {
        isConnected = true
        clearTimeout(late)
      }
      const leave = () => request.destroy()
      request.once('socket', socket => {
        if (socket.connecting) socket.once('connect', connected)
        else connected()
      })
      signal.addEventListener('abort', leave)
      request.once('close', () => {
        clearTimeout(late)
        signal.removeEventListener('abort', leave)
      })
      request.once('response', resolve)
      request.on('error', error => {
        // It closed the connection while it was idle. What it has taken it takes no second time.
        if (request.reusedSocket && !isAgain && !signal.aborted) return resolve(this.#send(to, bytes, signal, true))
        reject(isConnected ? error : new Gone(error))
      })
      if (signal.aborted) leave()
      else request.end(bytes)
    })
  }
}

/** Nothing listens there. */
class Gone extends Error {
  constructor(cause: unknown) {
    super('the replica is gone', { cause })
  }
}

function answerOf(response: IncomingMessage): HttpResponse {
  const { statusCode: status = 502, headers } = response
  const kept = passedOn.flatMap(name => {
    const value = headers[name]
    return typeof value === 'string' ? [[name, value] as const] : []
  })
  const length = headers['content-length']
  if (length === '0' || status === 204) {
    response.resume()
    return { status, headers: kept, body: length === undefined ? undefined : '' }
  }
  return {
    status,
    headers: kept,
    body: undefined,
    streamLength: length === undefined ? undefined : Number(length),
    stream: async out => {
      for await (const chunk of response) if (!out.write(chunk)) await out.drained()
    },
  }
}

/** What a server's limit of a body has to leave for what arrives from replicas. */
export { envelopeBytes }
