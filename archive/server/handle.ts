/** Responds to one request: determines the client, its permissions and the operation. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { Logger } from 'pino'
import { backupNames } from '../backup/record.ts'
import { deleteBackup, deleteIncarnation, deleteWal } from '../deletion.ts'
import { type Identity, identityOf, isSegment, mostPieceBytes, tailPrefix, walPrefix } from '../names.ts'
import { opened, plainOf } from '../object/seal.ts'
import { type Archive, putOnce, readHeader } from '../put.ts'
import { deleteTail, tailOf } from '../tail.ts'
import { type Answer, busy, refusal } from './answer.ts'
import { listBackups, receiveRecord } from './backups.ts'
import { acceptsZstd, parseContent, parsePredecessor, renderCompressed, renderDigest, renderPlain } from './content.ts'
import type { ArchiveMetrics } from './metrics.ts'
import { clientOf, parseTarget, refusalFor, type Target } from './request.ts'

import type { Transfers } from './transfers.ts'

export type Limits = {
  /** Maximum number of concurrent reads, writes and deletions. Requests for pieces and lists do not count. */
  transfers: number
  transfersOfClient: number
  /**
   * Maximum number of concurrent requests for pieces. The limit is separate, so that the archive accepts pieces during
   * larger transfers.
   */
  pieces: number
  piecesOfClient: number
  connections: number
  idleMs: number
  /** How long a connection without a request stays open. */
  keepAliveMs: number
  /**
   * Maximum number of entries in a response. Also the maximum number of objects that one deletion of WAL or of an
   * incarnation deletes. Backup records do not count. The deletion of a backup or of a tail has no maximum.
   */
  listed: number
}
export type Served = Archive & {
  limits: Limits
  transfers: Transfers
  pieces: Transfers
  metrics: ArchiveMetrics
  logger: Logger
}

type Exchange = { request: IncomingMessage; response: ServerResponse; signal: AbortSignal }

/** Handles a request. Returns undefined if it has already sent the response. @throws ArchiveError */
export async function answerTo(served: Served, exchange: Exchange): Promise<Answer | undefined> {
  const { request } = exchange
  // The server accepts only TLS.
  const socket = request.socket as TLSSocket
  const client = socket.authorized ? clientOf(socket.getPeerX509Certificate()?.subjectAltName) : undefined
  if (client === undefined)
    return refusal(401, 'unauthenticated', 'a client certificate with exactly one archive URI is required')
  const target = parseTarget(request.url ?? '')
  if (target.kind === 'refused') return target.answer
  const { value } = target
  const refused = refusalFor(client, request.method ?? '', value)
  if (refused !== undefined) return refused
  if (request.method === 'GET' && value.kind === 'wal') return listWal(served, value)
  if (request.method === 'GET' && value.kind === 'backups') return listBackups(served, value, served.limits.listed)
  const limited = value.kind === 'piece' ? served.pieces : served.transfers
  const end = limited.begin(nameOf(client))
  if (end === undefined) return busy()
  const report = () => served.metrics.running(served.transfers.running + served.pieces.running)
  report()
  // A deletion, or the write of a record, can take minutes, and HTTP/1.0 clients receive no 102 Processing. So these
  // requests have an idle timeout of 10 minutes.
  if (isSlow(request.method, value)) request.socket.setTimeout(slowMs)
  try {
    return request.method === 'DELETE' ? await remove(served, value, client) : await transfer(served, value, exchange)
  } finally {
    end()
    report()
  }
}

const slowMs = 600_000
const isSlow = (method: string | undefined, target: Target): boolean =>
  method === 'DELETE' || (method === 'PUT' && target.kind === 'backup object' && target.object.kind === 'record')

/** A restore is a separate client: its transfers do not count toward the limit of the database's own transfers. */
const nameOf = (client: Identity): string =>
  client.kind === 'operator' ? client.kind : `${client.kind} ${identityOf(client.incarnation)}`

async function remove(served: Served, target: Target, client: Identity): Promise<Answer> {
  const { incarnation } = target
  if (target.kind === 'backup') {
    const { record } = backupNames(incarnation, target.id)
    if (client.kind !== 'operator' && (await served.store.stat(record)) !== undefined)
      return refusal(403, 'forbidden', 'only the operator may delete a complete backup')
    await deleteBackup(served, incarnation, target.id)
    return { status: 204 }
  }
  if (target.kind === 'incarnation')
    return { status: 200, body: await deleteIncarnation(served, incarnation, served.limits.listed) }
  // A request without `before` must not delete all WAL. To delete everything, clients use the incarnation's path.
  if (target.kind !== 'wal' || target.before === undefined)
    return refusal(400, 'bad_request', 'before: required; must be the name of a segment')
  return { status: 200, body: await deleteWal(served, incarnation, target.before, served.limits.listed) }
}

async function transfer(served: Served, target: Target, exchange: Exchange): Promise<Answer | undefined> {
  const { request, signal } = exchange
  if (target.kind === 'tail') return deliverTail(served, target, exchange)
  const name = objectName(target)
  if (request.method === 'HEAD') return describe(served, name, signal)
  if (request.method === 'GET') return deliver(served, name, exchange)
  if (target.kind === 'backup object' && target.object.kind === 'record')
    return receiveRecord(served, { ...target, name }, request, signal)
  return receive(served, target, request, signal)
}

function objectName(target: Exclude<Target, { kind: 'tail' }>): string {
  const { incarnation } = target
  if (target.kind === 'wal file') return `${walPrefix(incarnation)}${target.file}`
  if (target.kind === 'piece') return `${tailPrefix(incarnation)}${target.name}`
  // `answerTo` handles lists and deletions.
  if (target.kind !== 'backup object') throw new RangeError(`${target.kind} is not an object`)
  const names = backupNames(incarnation, target.id)
  return target.object.kind === 'part' ? names.part(target.object.number) : names[target.object.kind]
}

async function receive(
  served: Served,
  target: Exclude<Target, { kind: 'tail' }>,
  request: IncomingMessage,
  signal: AbortSignal,
): Promise<Answer> {
  const content = parseContent(request.headers, ...(target.kind === 'piece' ? [mostPieceBytes] : []))
  if (content.kind === 'refused') return content.answer
  if (target.kind === 'piece' && target.piece.length !== content.value.size)
    return refusal(
      400,
      'bad_request',
      `${content.isCompressed ? 'espalier-length' : 'content-length'}: must be the length in the name of the piece`,
    )
  const predecessor = parsePredecessor(request.headers)
  if (predecessor === 'invalid') return invalidPredecessor()
  const object = { name: objectName(target), content: content.value, source: request, predecessor }
  const { isCompressed } = content
  // With `encodedSha256`, the archive checks the compressed bytes, and a restore checks the data files with the
  // backup's manifest. WAL has no manifest, so the archive decompresses and checks WAL here.
  const encodedSha256 = target.kind === 'backup object' ? content.encodedSha256 : undefined
  const result = await putOnce(served, { ...object, isCompressed, encodedSha256 }, signal)
  if (result === 'created') served.metrics.stored(content.value.size)
  if (target.kind === 'wal file' && isSegment(target.file)) await dropTail(served, target.incarnation, target.file)
  return { status: result === 'created' ? 201 : 200 }
}

const invalidPredecessor = (): Answer => refusal(400, 'bad_request', 'espalier-predecessor: must be sha-256=:<base64>:')

/**
 * Deletes the pieces of an archived segment. After an error, the segment stays archived, and `deleteWal` deletes the
 * pieces later.
 */
async function dropTail(served: Served, incarnation: Target['incarnation'], segment: string): Promise<void> {
  await deleteTail(served, incarnation, segment).catch((error: unknown) =>
    served.logger.warn({ err: error, segment, ...incarnation }, 'could not delete pieces of an archived segment'),
  )
}

const missing = (name: string): Answer => refusal(404, 'not_found', `${name} is not in the archive`)

async function describe(served: Served, name: string, signal: AbortSignal): Promise<Answer> {
  const content = (await readHeader(served, name, signal))?.content
  return content === undefined ? missing(name) : { status: 204, headers: { 'content-digest': renderDigest(content) } }
}

/** If the client accepts zstd, the archive only decrypts the stored content. The client decompresses the content. */
async function deliver(
  { store, keys }: Served,
  name: string,
  { request, response, signal }: Exchange,
): Promise<Answer | undefined> {
  const stored = await store.read(name, undefined, signal)
  if (stored === undefined) return missing(name)
  const { header, frames } = await opened(stored, name, keys)
  const known = header.content
  const isCompressed = known !== undefined && header.compression === 'zstd' && acceptsZstd(request.headers)
  const headers = known && (isCompressed ? renderCompressed(known) : renderPlain(known))
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    // A segment's salt can contain a hash that identifies the previous segment. The reader checks this hash.
    'espalier-salt': header.salt,
    ...headers,
  })
  await write(isCompressed ? frames : plainOf(header, frames), response, signal)
  return undefined
}

async function deliverTail(
  served: Served,
  { incarnation, segment }: Target & { kind: 'tail' },
  { request, response, signal }: Exchange,
): Promise<Answer | undefined> {
  const predecessor = parsePredecessor(request.headers)
  if (predecessor === 'invalid') return invalidPredecessor()
  const tail = await tailOf(served, incarnation, segment, predecessor)
  if (tail.length === 0) return missing(`${tailPrefix(incarnation)}${segment}`)
  // A 204 response has no `content-length`, so `espalier-length` reports the tail's length.
  if (request.method === 'HEAD') return { status: 204, headers: { 'espalier-length': String(tail.length) } }
  response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': tail.length })
  await write(tail.read(), response, signal)
  return undefined
}

async function write(content: AsyncIterable<Uint8Array>, response: ServerResponse, signal: AbortSignal): Promise<void> {
  for await (const chunk of content) {
    signal.throwIfAborted()
    if (!response.write(chunk)) await once(response, 'drain', { signal })
  }
  response.end()
}

async function listWal({ store, limits }: Served, { incarnation, after }: Target & { kind: 'wal' }): Promise<Answer> {
  const prefix = walPrefix(incarnation)
  const files: string[] = []
  for await (const { name } of store.list(prefix, after === undefined ? undefined : `${prefix}${after}`)) {
    const file = name.slice(prefix.length)
    // Skips lock objects of `putOnce`.
    if (!file.includes('.claim-')) files.push(file)
    if (files.length === limits.listed) break
  }
  return { status: 200, body: { files, hasMore: files.length === limits.listed } }
}
