/**
 * Refuses a connection as Postgres would. It runs the start-up phase, with TLS if the client requests it (SSLRequest)
 * or starts with it (direct TLS); the certificate is the gateway's own. It reads the StartupMessage, answers it with a
 * FATAL ErrorResponse and closes. It closes without a response after a cancel request, and after any data that are not
 * Postgres's protocol.
 *
 * Everything is limited: concurrent conversations, conversations per second (by address and in total), bytes read, and
 * time. Above a limit, the client gets a FATAL error in plain text. Its bytes are not read, and TLS is not used, so
 * this costs one write. Postgres does the same when it cannot start a backend (Postgres manual, "Message Flow", SSL
 * session encryption). No byte from a client is logged.
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
  /** The maximum number of concurrent conversations. */
  concurrent: number
  /**
   * The maximum number of plain responses, above a limit, that clients have not read yet. Above this number, a
   * connection is closed without a response.
   */
  plainConcurrent: number
  perAddress: Rate
  total: Rate
  /** The time from the first byte to the response, in milliseconds. */
  conversationMs: number
  /** How long a client may take to close after the response, in milliseconds. */
  closeDelayMs: number
}

const denialLimits: DenialLimits = {
  concurrent: 256,
  plainConcurrent: 1_000,
  perAddress: { perSecond: 5, burst: 20 },
  total: { perSecond: 200, burst: 400 },
  conversationMs: 5_000,
  closeDelayMs: 2_000,
}

export type DenialAgent = {
  /**
   * Takes over a socket from which nothing was read. Returns false above a limit: then the client got a plain response
   * or none.
   */
  refuse(socket: Socket, address: string, refusal: Refusal): boolean
  /** Current conversations. */
  active(): number
  /**
   * Replaces the certificate for later conversations. @throws Error if the certificate is invalid; the previous
   * certificate stays.
   */
  setCertificate(certificate: Certificate): void
  /** Ends every conversation. */
  close(): void
}

/** The ALPN name of Postgres's protocol inside TLS (Postgres manual, `sslnegotiation`). */
const protocolName = 'postgresql'

/** @throws Error if certificate and key are not PEM, or do not match. */
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
    const closing = setTimeout(() => socket.destroy(), limits.closeDelayMs)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => {
      clearTimeout(closing)
      plain.delete(socket)
    })
    // The client's data are read and discarded, as after a conversation.
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
      // Reads and discards the client's further data. Closing with unread bytes would reset the connection, and the
      // response could be lost. Once both sides have ended, the socket closes by itself.
      stream.resume()
      clearTimeout(deadline)
      const closing = setTimeout(() => socket.destroy(), limits.closeDelayMs)
      await closed
      clearTimeout(closing)
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

/** Runs the start-up phase. Resolves to the stream on which the client waits for a response, if it waits. */
async function negotiate(socket: Socket, context: SecureContext): Promise<Duplex | undefined> {
  const requestedKinds = new Set<StartupRequest['kind']>()
  let secured: TLSSocket | undefined
  for (;;) {
    const request = await nextRequest(secured ?? socket)
    // Each kind may be requested once, and none inside TLS.
    if (requestedKinds.has(request.kind) || (secured !== undefined && request.kind !== 'startup')) return undefined
    requestedKinds.add(request.kind)
    switch (request.kind) {
      case 'gss-request':
        socket.write('N')
        break
      case 'tls-request':
        socket.write('S')
        secured = secure(socket, context)
        break
      case 'direct-tls':
        // Accepts direct TLS as Postgres does: not after a request, and only with the protocol's ALPN name.
        if (requestedKinds.size > 1) return undefined
        secured = secure(socket, context)
        break
      case 'startup':
        if (requestedKinds.has('direct-tls') && secured?.alpnProtocol !== protocolName) return undefined
        return secured ?? socket
      default:
        return undefined
    }
  }
}

/** TLS consumes the bytes that the socket has already buffered. */
function secure(socket: Socket, secureContext: SecureContext): TLSSocket {
  const secured = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: [protocolName] })
  return secured.on('error', () => secured.destroy())
}

/** The next request on a stream; `invalid` if the stream ends before. The bytes of direct TLS stay in the stream. */
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
    // Refuses bytes that arrive in plain text before the response to an encryption request, because they could be
    // mistaken for encrypted bytes.
    const early = (request.kind === 'tls-request' || request.kind === 'gss-request') && received.length > request.length
    return early ? { kind: 'invalid', reason: 'data before the response' } : request
  }
}

/** Resolves to true if there may be data to read, and to false once the stream has ended. */
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
