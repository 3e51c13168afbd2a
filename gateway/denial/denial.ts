/**
 * Refuses a connection the way Postgres would: it speaks the start-up phase, with TLS by the gateway's own certificate
 * where the client asks for it (SSLRequest) or begins with it (direct TLS), reads the StartupMessage, answers it with a
 * FATAL ErrorResponse and closes. Cancel requests and whatever is not Postgres are closed without a word.
 *
 * Everything is bounded: conversations at once, conversations a second (by address and in all), bytes read, and time.
 * Above a bound the client gets a FATAL in plain text, unread and without TLS, which costs one write, as Postgres does
 * when it cannot start a backend (Postgres manual, "Message Flow", SSL session encryption). No byte that a client sends
 * is logged.
 */

import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls'
import type { Certificate } from '../../server/certificate.ts'
import { type Rate, TokenBucket, TokenBuckets } from '../../server/token-bucket.ts'
import { readStartup, type StartupRequest } from '../startup.ts'
import { encodeRefusal, type Refusal, tooManyRefusals } from './refusal.ts'

export type DenialLimits = {
  /** Conversations at once. */
  concurrent: number
  /** Plain answers above a bound that clients have not read yet, at once; above it a connection is closed unanswered. */
  plainConcurrent: number
  perAddress: Rate
  total: Rate
  /** From the first byte to the answer, in milliseconds. */
  conversationMs: number
  /** How long a client may take to close after the answer, in milliseconds. */
  lingerMs: number
}

const denialLimits: DenialLimits = {
  concurrent: 256,
  plainConcurrent: 1_000,
  perAddress: { perSecond: 5, burst: 20 },
  total: { perSecond: 200, burst: 400 },
  conversationMs: 5_000,
  lingerMs: 2_000,
}

export type DenialAgent = {
  /** Takes over a socket from which nothing was consumed. False: above a bound, it got a plain answer or none. */
  refuse(socket: Socket, address: string, refusal: Refusal): boolean
  /** Conversations under way. */
  active(): number
  /** Another certificate, for conversations from now on. @throws Error as for the first; the former one stays then. */
  setCertificate(certificate: Certificate): void
  /** Ends every conversation. */
  close(): void
}

/** By this name clients and servers agree on Postgres's protocol inside TLS (Postgres manual, `sslnegotiation`). */
const protocolName = 'postgresql'

/** @throws Error where certificate and key are no PEM, or do not belong together. */
export function createDenialAgent(options: {
  certificate: Certificate
  limits?: Partial<DenialLimits> | undefined
  now: () => number
}): DenialAgent {
  const limits = { ...denialLimits, ...options.limits }
  let context = contextOf(options.certificate)
  const ofAddresses = new TokenBuckets(options.now, limits.perAddress, 10_000)
  const ofAll = new TokenBucket(options.now, limits.total)
  const conversations = new Set<Socket>()
  const plain = new Set<Socket>()

  const answerInPlain = (socket: Socket): void => {
    if (plain.size >= limits.plainConcurrent) {
      socket.destroy()
      return
    }
    plain.add(socket)
    const linger = setTimeout(() => socket.destroy(), limits.lingerMs)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => {
      clearTimeout(linger)
      plain.delete(socket)
    })
    // Read on and dropped, as after a conversation.
    socket.end(encodeRefusal(tooManyRefusals))
    socket.resume()
  }

  const converse = async (socket: Socket, refusal: Refusal): Promise<void> => {
    const deadline = setTimeout(() => socket.destroy(), limits.conversationMs)
    const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
    try {
      const stream = await negotiate(socket, context)
      if (stream === undefined) return
      stream.end(encodeRefusal(refusal))
      // What the client still sends is read and dropped: closing over unread bytes would reset the connection, and
      // the answer could be lost with it. Once both sides have ended the socket closes by itself.
      stream.resume()
      clearTimeout(deadline)
      const linger = setTimeout(() => socket.destroy(), limits.lingerMs)
      await closed
      clearTimeout(linger)
    } finally {
      clearTimeout(deadline)
      socket.destroy()
    }
  }

  return {
    refuse: (socket, address, refusal) => {
      if (conversations.size >= limits.concurrent || !ofAddresses.of(address).take() || !ofAll.take()) {
        answerInPlain(socket)
        return false
      }
      conversations.add(socket)
      socket.on('error', () => socket.destroy())
      void converse(socket, refusal).finally(() => conversations.delete(socket))
      return true
    },
    active: () => conversations.size,
    setCertificate: certificate => {
      context = contextOf(certificate)
    },
    close: () => {
      for (const socket of [...conversations, ...plain]) socket.destroy()
    },
  }
}

const contextOf = ({ cert, key }: Certificate): SecureContext =>
  createSecureContext({ cert, key, minVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_RENEGOTIATION })

/** Goes through the start-up phase; resolves to the stream on which the client now waits for an answer, if it does. */
async function negotiate(socket: Socket, context: SecureContext): Promise<Duplex | undefined> {
  const asked = new Set<StartupRequest['kind']>()
  let secured: TLSSocket | undefined
  for (;;) {
    const request = await nextRequest(secured ?? socket)
    // Each may be asked for once, and none inside TLS.
    if (asked.has(request.kind) || (secured !== undefined && request.kind !== 'startup')) return undefined
    asked.add(request.kind)
    switch (request.kind) {
      case 'gss-request':
        socket.write('N')
        break
      case 'tls-request':
        socket.write('S')
        secured = secure(socket, context)
        break
      case 'direct-tls':
        // As Postgres does: not after a request, and only by the protocol's name.
        if (asked.size > 1) return undefined
        secured = secure(socket, context)
        break
      case 'startup':
        if (asked.has('direct-tls') && secured?.alpnProtocol !== protocolName) return undefined
        return secured ?? socket
      default:
        return undefined
    }
  }
}

/** What the socket holds already is taken into TLS with it. */
function secure(socket: Socket, secureContext: SecureContext): TLSSocket {
  const secured = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: [protocolName] })
  return secured.on('error', () => secured.destroy())
}

/** The next request on a stream; `invalid` where it ends before. Bytes of direct TLS are left in the stream. */
async function nextRequest(stream: Duplex): Promise<StartupRequest> {
  let received: Buffer = Buffer.alloc(0)
  let need = 1
  for (;;) {
    const chunk: Buffer | null = stream.read()
    if (chunk !== null) received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    else if (!(await untilReadable(stream))) return { kind: 'invalid', reason: 'closed' }
    if (received.length < need) continue
    const request = readStartup(received)
    if (request.kind === 'incomplete') {
      need = request.need
      continue
    }
    if (request.kind === 'direct-tls') stream.unshift(received)
    // Bytes sent in plain before the answer to a request for encryption could pass for encrypted ones.
    const early = (request.kind === 'tls-request' || request.kind === 'gss-request') && received.length > request.length
    return early ? { kind: 'invalid', reason: 'data before the answer' } : request
  }
}

/** Resolves to whether there may be something to read; false once the stream is over. */
function untilReadable(stream: Duplex): Promise<boolean> {
  if (stream.destroyed || stream.readableEnded) return Promise.resolve(false)
  return new Promise(resolve => {
    const settle = (more: boolean) => {
      stream.off('readable', onReadable).off('end', onEnd).off('close', onEnd)
      resolve(more)
    }
    const onReadable = () => settle(true)
    const onEnd = () => settle(false)
    stream.on('readable', onReadable).on('end', onEnd).on('close', onEnd)
  })
}
