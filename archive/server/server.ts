/**
 * The archive over HTTPS. A client shows a certificate of the installation's authority that names one incarnation of one database, and
 * reaches the objects of that one alone.
 */
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Logger } from 'pino'
import { identityOf, walPrefix } from '../names.ts'
import type { ArchiveKeys } from '../object/key.ts'
import { unsealed } from '../object/seal.ts'
import { putOnce, readHeader } from '../put.ts'
import type { ObjectStore } from '../store/store.ts'
import { type Answer, busy, faultAnswer, refusal } from './answer.ts'
import type { ArchiveMetrics } from './metrics.ts'
import {
  clientOf,
  isSame,
  mostFileBytes,
  parseContent,
  parseTarget,
  renderContentDigest,
  type Target,
} from './request.ts'
import { Transfers } from './transfers.ts'

type Certificates = { cert: string; key: string; ca: string }

export type ArchiveServer = {
  readonly address: AddressInfo
  /** Takes up a certificate that was replaced. */
  follow(certificates: Certificates): void
  /** Ends after the transfers that run, or after `graceMs`. */
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
type Limits = { transfers: number; transfersOfClient: number; connections: number; idleMs: number; listed: number }

const usualLimits: Limits = { transfers: 16, transfersOfClient: 4, connections: 4096, idleMs: 30_000, listed: 1000 }

/** @throws Error if it cannot listen, or the certificate is none */
export async function startArchiveServer(options: Options): Promise<ArchiveServer> {
  const limits = { ...usualLimits, ...options.limits }
  const context = (certificates: Certificates) => ({ ...certificates, minVersion: 'TLSv1.3' as const })
  const server = createServer({
    ...context(options.certificates),
    requestCert: true,
    // A client without a certificate gets an answer that says so.
    rejectUnauthorized: false,
    handshakeTimeout: 10_000,
    headersTimeout: 10_000,
    requestTimeout: 600_000,
    maxHeaderSize: 8192,
  })
  server.maxConnections = limits.connections
  server.setTimeout(limits.idleMs)
  const transfers = new Transfers(limits.transfers, limits.transfersOfClient)
  const served = { ...options, limits, transfers }
  server.on('request', (request, response) => void respond(served, request, response))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.listen.port, options.listen.host, resolve)
  })
  return {
    // It listens on TCP.
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

type Served = Options & { limits: Limits; transfers: Transfers }

async function respond(served: Served, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const began = performance.now()
  const controller = new AbortController()
  response.once('close', () => controller.abort(new Error('the client has gone')))
  try {
    const answer = await answerTo(served, request, response, controller.signal).catch(error =>
      failure(served, request, error),
    )
    if (answer !== undefined) await send(request, response, answer)
  } finally {
    served.metrics.request(request.method ?? '', response.statusCode, (performance.now() - began) / 1000)
  }
}

function failure({ logger }: Served, { url: path }: IncomingMessage, error: unknown): Answer {
  const known = faultAnswer(error)
  if (known === undefined) logger.error({ err: error, path }, 'a request to the archive failed')
  else logger.warn({ path, fault: known.body }, 'a request to the archive was not done')
  return known ?? refusal(500, 'internal', 'the archive failed; its log says why')
}

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Answer,
): Promise<void> {
  // A body that was begun cannot become an error: the connection ends before its announced length.
  if (response.headersSent) return void response.destroy()
  const isLeft = await discardBody(request)
  if (response.destroyed) return
  const text = body === undefined ? '' : `${JSON.stringify(body)}\n`
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  if (isLeft) response.shouldKeepAlive = false
  response.writeHead(status, { ...headers, ...type, 'content-length': Buffer.byteLength(text) })
  response.end(request.method === 'HEAD' ? undefined : text)
}

/**
 * Reads what is left of the body, since a client that still sends may not see an answer that comes before it has finished.
 * @returns whether some of it is left, because it is larger than any that is accepted
 */
async function discardBody(request: IncomingMessage): Promise<boolean> {
  if (request.complete || request.destroyed) return !request.complete
  if (Number(request.headers['content-length'] ?? 0) > mostFileBytes) return true
  request.resume()
  await new Promise<void>(resolve => {
    request.once('end', resolve).once('close', resolve)
  })
  return false
}

/** Undefined if the answer was sent. */
async function answerTo(
  served: Served,
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  // The server speaks TLS alone.
  const socket = request.socket as TLSSocket
  const client = socket.authorized ? clientOf(socket.getPeerX509Certificate()?.subjectAltName) : undefined
  if (client === undefined) return refusal(401, 'unauthenticated', 'a client certificate of a database is required')
  const target = parseTarget(request.url ?? '')
  if (target.kind === 'refused') return target.answer
  const { value } = target
  if (!isSame(value.incarnation, client))
    return refusal(403, 'forbidden', 'the certificate is of another database or incarnation')
  if (value.kind === 'wal list') return request.method === 'GET' ? await listWal(served, value) : notAllowed('GET')
  const { transfers, metrics } = served
  const end = transfers.begin(identityOf(client))
  if (end === undefined) return busy()
  metrics.running(transfers.running)
  try {
    return await transfer(served, value, request, response, signal)
  } finally {
    end()
    metrics.running(transfers.running)
  }
}

const notAllowed = (allow: string): Answer => refusal(405, 'method_not_allowed', `only ${allow}`, { allow })

async function transfer(
  served: Served,
  target: Target & { kind: 'wal file' },
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const name = `${walPrefix(target.incarnation)}${target.file}`
  switch (request.method) {
    case 'PUT':
      return await receive(served, name, request, signal)
    case 'HEAD':
      return await describe(served, name, signal)
    case 'GET':
      return await deliver(served, name, response, signal)
    default:
      return notAllowed('GET, HEAD, PUT')
  }
}

async function receive(served: Served, name: string, request: IncomingMessage, signal: AbortSignal): Promise<Answer> {
  const content = parseContent(request.headers)
  if (content.kind === 'refused') return content.answer
  const result = await putOnce(served, { name, content: content.value, source: request }, signal)
  if (result === 'created') served.metrics.stored(content.value.size)
  return { status: result === 'created' ? 201 : 200 }
}

const missing = (name: string): Answer => refusal(404, 'not_found', `${name} is not in the archive`)

async function describe(served: Served, name: string, signal: AbortSignal): Promise<Answer> {
  const content = (await readHeader(served, name, signal))?.content
  return content === undefined
    ? missing(name)
    : { status: 204, headers: { 'content-digest': renderContentDigest(content) } }
}

async function deliver(
  { store, keys }: Served,
  name: string,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const stored = await store.read(name, undefined, signal)
  if (stored === undefined) return missing(name)
  const { header, content } = await unsealed(stored, { name, keys })
  const known = header.content
  const headers = known && { 'content-length': known.size, 'content-digest': renderContentDigest(known) }
  response.writeHead(200, { 'content-type': 'application/octet-stream', ...headers })
  for await (const chunk of content) {
    signal.throwIfAborted()
    if (!response.write(chunk)) await once(response, 'drain', { signal })
  }
  response.end()
  return undefined
}

async function listWal(
  { store, limits }: Served,
  { incarnation, after }: Target & { kind: 'wal list' },
): Promise<Answer> {
  const prefix = walPrefix(incarnation)
  const files: string[] = []
  for await (const { name } of store.list(prefix, after === undefined ? undefined : `${prefix}${after}`)) {
    const file = name.slice(prefix.length)
    // Claims of content are no files.
    if (!file.includes('.claim-')) files.push(file)
    if (files.length === limits.listed) break
  }
  return { status: 200, body: { files, hasMore: files.length === limits.listed } }
}
