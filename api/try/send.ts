/** Sends one request over a connection of its own, and reads the response, limited in size and time. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { request } from '../../server/node-http.ts'
import type { Outgoing } from './outgoing.ts'

export type Received = {
  readonly status: number
  readonly contentType: string | undefined
  readonly text: string
  /** The body is longer, or did not end in time. */
  readonly isCut: boolean
}

/**
 * `silent`: nothing accepted the connection in time, for example because the network drops it. `refused`: the connection
 * failed. `broken`: it ended before the response did. `late`: no response in time. `canceled`: the signal was aborted.
 */
type Kind = 'silent' | 'refused' | 'broken' | 'late' | 'canceled'

export class SendError extends Error {
  override readonly name = 'SendError'
  readonly kind: Kind
  constructor(kind: Kind, cause?: unknown) {
    super(kind, { cause })
    this.kind = kind
  }
}

/** The kernel accepts a connection, however busy the service is. */
const acceptMs = 4_000
export const answerSeconds = 60
export const mostBytes = 256 * 1024
const longestType = 200

type Options = {
  readonly address: { readonly host: string; readonly port: number }
  readonly outgoing: Outgoing
  /** Of the client. */
  readonly signal: AbortSignal
  /** Called when the connection is open and nothing has been sent. */
  readonly onConnected: () => void
  readonly answerMs?: number
  readonly acceptMs?: number
}

/** Redirects are not followed. @throws SendError */
export async function send(options: Options): Promise<Received> {
  const { address, outgoing, signal, onConnected, answerMs = answerSeconds * 1000 } = options
  const deadline = AbortSignal.timeout(answerMs)
  const { method, target: path, headers, body = '' } = outgoing
  const length = method === 'GET' || method === 'DELETE' ? {} : { 'content-length': Buffer.byteLength(body) }
  const made = request({
    ...{ ...address, method, path, agent: false },
    headers: { ...headers, ...length },
    signal: AbortSignal.any([signal, deadline]),
  })
  const response = Promise.withResolvers<IncomingMessage>()
  // It may be rejected before it is awaited.
  response.promise.catch(() => {})
  made.once('response', response.resolve)
  made.on('error', response.reject)
  // After `101 Switching Protocols`, Node closes the connection and emits neither a response nor an error.
  made.once('close', () => response.reject(new Error('the connection was closed without a response')))
  const failure = (otherwise: Kind, cause: unknown): SendError => {
    if (cause instanceof SendError) return cause
    return new SendError(signal.aborted ? 'canceled' : deadline.aborted ? 'late' : otherwise, cause)
  }
  try {
    await connected(made, options.acceptMs ?? acceptMs).catch(error => Promise.reject(failure('refused', error)))
    onConnected()
    made.end(body)
    return await read(await response.promise, deadline)
  } catch (error) {
    throw failure('broken', error)
  } finally {
    made.destroy()
  }
}

function connected(made: ClientRequest, ms: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new SendError('silent')), ms)
    made.once('socket', socket => socket.once('connect', resolve))
    made.once('error', reject)
    made.once('close', () => clearTimeout(timer))
    made.once('socket', socket => socket.once('connect', () => clearTimeout(timer)))
  })
}

/** At the deadline, returns what has arrived: a stream of changes does not end by itself. */
async function read(response: IncomingMessage, deadline: AbortSignal): Promise<Received> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > mostBytes) break
    }
  } catch (error) {
    if (!deadline.aborted) throw error
  }
  const isCut = bytes > mostBytes || deadline.aborted
  const kept = Buffer.concat(chunks).subarray(0, mostBytes)
  return {
    status: response.statusCode ?? 0,
    contentType: response.headers['content-type']?.slice(0, longestType),
    // Of a character that is cut, nothing remains.
    text: new TextDecoder().decode(kept, { stream: isCut }),
    isCut,
  }
}
