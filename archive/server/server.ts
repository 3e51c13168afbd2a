/**
 * The archive's HTTPS server. The installation's certificate authority issues the certificates. A database's
 * certificate names one incarnation. It permits reads and writes of this incarnation's objects, and deletions of its
 * incomplete backups. A restore's certificate permits only reads. The operator's certificate permits lists, reads of
 * records, and deletions.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { ArchiveKeys } from '../object/key.ts'
import type { ObjectStore } from '../store/store.ts'
import { type Answer, faultAnswer, refusal } from './answer.ts'
import { accepted, acceptedPieces, mostFileBytes } from './content.ts'
import { answerTo, type Limits, type Served } from './handle.ts'
import type { ArchiveMetrics } from './metrics.ts'
import { Transfers } from './transfers.ts'

type Certificates = { cert: string; key: string; ca: string }

export type ArchiveServer = {
  readonly address: AddressInfo
  /** Uses these certificates for new connections. */
  follow(certificates: Certificates): void
  /** Stops when the running transfers have ended, at the latest after `graceMs`. */
  stop(graceMs: number): Promise<void>
}

type Options = {
  store: ObjectStore
  keys: ArchiveKeys
  certificates: Certificates
  listen: { host: string; port: number }
  limits?: Partial<Limits>
  metrics: ArchiveMetrics
  logger: Logger
}

const usualLimits: Limits = {
  transfers: 16,
  // An agent sends at most four segments and one part of a backup at once.
  transfersOfClient: 8,
  pieces: 64,
  piecesOfClient: 2,
  connections: 4096,
  idleMs: 30_000,
  // A database that writes little sends a piece each minute. The connection stays open for the next piece: a TLS
  // handshake needs as much CPU time as the transfer of a piece.
  keepAliveMs: 65_000,
  listed: 1000,
}

/** @throws Error if it cannot listen, or the certificate is invalid */
export async function startArchiveServer(options: Options): Promise<ArchiveServer> {
  const limits = { ...usualLimits, ...options.limits }
  const context = (certificates: Certificates) => ({ ...certificates, minVersion: 'TLSv1.3' as const })
  const server = createServer({
    ...context(options.certificates),
    requestCert: true,
    // If a client has no valid certificate, `answerTo` returns 401 with an error message.
    rejectUnauthorized: false,
    handshakeTimeout: 10_000,
    headersTimeout: 10_000,
    requestTimeout: 600_000,
    maxHeaderSize: 8192,
  })
  server.maxConnections = limits.connections
  server.setTimeout(limits.idleMs)
  server.keepAliveTimeout = limits.keepAliveMs
  const served: Served = {
    ...options,
    limits,
    transfers: new Transfers(limits.transfers, limits.transfersOfClient),
    pieces: new Transfers(limits.pieces, limits.piecesOfClient),
  }
  server.on('request', (request, response) => void respond(served, request, response))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.listen.port, options.listen.host, resolve)
  })
  return {
    // The server listens on TCP, so this is never a string.
    address: server.address() as AddressInfo,
    follow: certificates => server.setSecureContext(context(certificates)),
    stop: graceMs => close(server, graceMs),
  }
}

function close(server: Server, graceMs: number): Promise<void> {
  return new Promise(resolve => {
    const end = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(end)
      resolve()
    })
    server.closeIdleConnections()
  })
}

async function respond(served: Served, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const began = performance.now()
  const controller = new AbortController()
  response.once('close', () => controller.abort(new Error('the client has disconnected')))
  const stopReporting = reportProgress(request, response, served.limits.idleMs)
  for (const [name, value] of Object.entries({ ...accepted, ...acceptedPieces })) response.setHeader(name, value)
  try {
    const answer = await answerTo(served, { request, response, signal: controller.signal }).catch(error =>
      failure(served, request, error),
    )
    if (answer !== undefined) await send(request, response, answer)
  } finally {
    stopReporting()
    served.metrics.request(request.method ?? '', response.statusCode, (performance.now() - began) / 1000)
  }
}

/** The longest time for which the server sends 102 Processing for one request. */
const longestProgressMs = 600_000

/**
 * Sends 102 Processing while a request waits for a slow store. Without 102, an idle timeout would end a transfer whose
 * bytes have all arrived. The client would then send the bytes again and again.
 */
function reportProgress(request: IncomingMessage, response: ServerResponse, idleMs: number): () => void {
  if (request.httpVersion === '1.0') return () => {}
  const began = performance.now()
  const timer = setInterval(() => {
    if (response.headersSent || response.destroyed || performance.now() - began > longestProgressMs)
      clearInterval(timer)
    // If the body is complete, or received bytes are unread, the server waits for the store and not for the client.
    else if (request.complete || request.readableLength > 0) response.writeProcessing()
  }, idleMs / 4)
  return () => clearInterval(timer)
}

function failure({ logger }: Served, { url: path }: IncomingMessage, error: unknown): Answer {
  const known = faultAnswer(error)
  if (known === undefined) logger.error({ err: error, path }, 'a request to the archive failed')
  else logger.warn({ path, fault: known.body }, 'the archive returned an error')
  return known ?? refusal(500, 'internal', 'the archive failed; its log has the error')
}

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Answer,
): Promise<void> {
  // The server cannot send an error once the response body has started. The closed connection shows the client that the
  // body is incomplete.
  if (response.headersSent) return void response.destroy()
  const isBodyUnread = await discardBody(request)
  if (response.destroyed) return
  const text = body === undefined ? '' : `${JSON.stringify(body)}\n`
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  if (isBodyUnread) response.shouldKeepAlive = false
  response.writeHead(status, { ...headers, ...type, 'content-length': Buffer.byteLength(text) })
  response.end(request.method === 'HEAD' ? undefined : text)
}

/**
 * Reads the rest of the request body: some clients read the response only after they have sent the whole body.
 * @returns whether the body is incomplete: the body is larger than the maximum, or the client has disconnected
 */
async function discardBody(request: IncomingMessage): Promise<boolean> {
  if (request.complete || request.destroyed) return !request.complete
  if (Number(request.headers['content-length'] ?? 0) > mostFileBytes) return true
  let size = 0
  // A body without a length may have no end.
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > mostFileBytes) request.pause().emit('left')
  })
  await new Promise<void>(resolve => {
    request.once('end', resolve).once('close', resolve).once('left', resolve)
  })
  return !request.complete
}
