/**
 * Reads objects of one incarnation from the archive. A failed request is repeated until nothing has arrived for
 * `timeoutMs`, so a restart of the archive does not fail a recovery. The archive sends objects compressed, as it stores
 * them.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import { type Answer, createArchiveTransport } from '../archive/transport.ts'
import { Refusal } from '../refusal.ts'
import type { RecoverySource } from './source.ts'

/** A segment, a part, or a manifest of some million files. */
const mostBytes = 1024 * 1024 * 1024
const idleMs = 30_000
const firstPauseMs = 100
const longestPauseMs = 5_000

/** The SHA-256 in hexadecimal digits, and the size in bytes. */
export type Content = { sha256: string; size: number }

export type ArchiveReader = {
  /**
   * Returns the content of an object, checked by its digest. Returns undefined if the archive does not have the object.
   * @param name below the incarnation, for example `wal/000000010000000000000003`
   * @param expected the digest that the archive must state. The content is not compared with it: the caller has another
   * check
   * @throws Refusal `archive-damaged` with the object's name, `archive-unavailable`
   */
  read(name: string, expected?: Content): Promise<Buffer | undefined>
  /**
   * Reads a segment or its tail in the same way.
   * @param predecessor SHA-256 of the previous segment: the archive ignores pieces that continue another segment
   */
  readWal(name: string, predecessor?: Buffer): Promise<ArchivedWal | undefined>
  close(): void
}

/**
 * `sha256`: known only for whole segments. `salt`: names the previous segment (archive/predecessor.ts); absent in
 * answers of earlier versions.
 */
type ArchivedWal = { content: Buffer; sha256: Buffer | undefined; salt: Buffer | undefined }

type Options = {
  /** The directory of the client's certificate. */
  tls: string
  timeoutMs?: number
  signal?: AbortSignal
}

export function openArchiveReader(
  { archive, id, incarnation }: Pick<RecoverySource, 'archive' | 'id' | 'incarnation'>,
  { tls, timeoutMs = 300_000, signal }: Options,
): ArchiveReader {
  const transport = createArchiveTransport(archive, tls, Date.now)
  const send = ({ name, predecessor }: Wanted): Promise<Answer> => {
    const path = `/v1/${id}/${incarnation}/${name}`
    return transport.send('GET', path, { predecessor, idleMs, mostBytes, signal, acceptsZstd: true })
  }
  const read = (wanted: Omit<Wanted, 'fullName'>): Promise<ArchivedWal | undefined> =>
    readPatiently({ ...wanted, fullName: `${id}/${incarnation}/${wanted.name}` }, send, { timeoutMs, signal })
  return {
    read: async (name, expected) => (await read({ name, expected }))?.content,
    readWal: (name, predecessor) => read({ name, predecessor }),
    close: transport.close,
  }
}

type Wanted = { name: string; fullName: string; expected?: Content | undefined; predecessor?: Buffer | undefined }

async function readPatiently(
  wanted: Wanted,
  send: (wanted: Wanted) => Promise<Answer>,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal | undefined },
): Promise<ArchivedWal | undefined> {
  const until = performance.now() + timeoutMs
  for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, longestPauseMs)) {
    const answer = await send(wanted).catch((error: Error) => ({ failed: error.message }))
    const found = 'failed' in answer ? answer : await contentOf(answer, wanted)
    if (!('failed' in found)) return found.content && { ...found, content: found.content, salt: saltOf(answer) }
    signal?.throwIfAborted()
    if (performance.now() >= until)
      throw new Refusal('archive-unavailable', `the archive cannot deliver ${wanted.fullName}: ${found.failed}`)
    await delay(pause, undefined, { signal })
  }
}

function saltOf(answer: Answer | { failed: string }): Buffer | undefined {
  const salt = 'failed' in answer ? undefined : answer.headers['espalier-salt']
  return typeof salt === 'string' ? Buffer.from(salt, 'base64') : undefined
}

type Found = { content: Buffer | undefined; sha256: Buffer | undefined } | { failed: string }

/** @throws Refusal `archive-damaged` */
async function contentOf({ status, headers, body }: Answer, { fullName, expected }: Wanted): Promise<Found> {
  if (status === 404) return { content: undefined, sha256: undefined }
  if (status !== 200) {
    const { code, message } = faultOf(body)
    if (code === 'damaged' || code === 'unknown_key')
      throw new Refusal('archive-damaged', `the archive cannot read ${fullName}: ${message}`)
    return { failed: `it answers ${status}: ${message}` }
  }
  const isCompressed = headers['content-encoding'] === 'zstd'
  const digest = String(headers[isCompressed ? 'unencoded-digest' : 'content-digest'] ?? '')
  const stated = /^sha-256=:([A-Za-z0-9+/]{43}=):$/.exec(digest)?.[1]
  const content = isCompressed ? await decompressed(body, Number(headers['espalier-length'])) : body
  if (content === undefined) return { failed: 'the content cannot be decompressed to its length' }
  if (expected !== undefined) return asExpected(content, stated ?? digestOf(content), fullName, expected)
  if (stated === undefined) return { content, sha256: undefined }
  return digestOf(content) === stated
    ? { content, sha256: Buffer.from(stated, 'base64') }
    : { failed: 'the content differs from its digest' }
}

const digestOf = (content: Buffer): string => createHash('sha256').update(content).digest('base64')

function asExpected(content: Buffer, stated: string, fullName: string, { sha256, size }: Content): Found {
  if (stated !== Buffer.from(sha256, 'hex').toString('base64') || content.length !== size)
    throw new Refusal('archive-damaged', `${fullName} does not match the record of its backup`)
  return { content, sha256: undefined }
}

const decompress = promisify(zstdDecompress)

/**
 * Returns undefined unless the content has that many bytes. The output is one buffer that is one byte larger, because
 * zlib would allocate another buffer after a full buffer.
 */
async function decompressed(body: Buffer, size: number): Promise<Buffer | undefined> {
  if (!Number.isSafeInteger(size) || size < 0 || size > mostBytes) return undefined
  const limits = { chunkSize: Math.max(size + 1, 64), maxOutputLength: Math.max(size, 1) }
  const content = await decompress(body, limits).catch(() => undefined)
  return content?.length === size ? content : undefined
}

function faultOf(body: Buffer): { code: string; message: string } {
  try {
    const { code, message } = Object(JSON.parse(body.toString('utf8')))
    return { code: String(code), message: String(message).slice(0, 500) }
  } catch {
    return { code: '', message: body.toString('latin1').slice(0, 200) }
  }
}

/** @throws Refusal `archive-damaged` if the object is missing */
export async function readNeeded(
  reader: ArchiveReader,
  name: string,
  whose: string,
  expected?: Content,
): Promise<Buffer> {
  const content = await reader.read(name, expected)
  if (content === undefined) throw new Refusal('archive-damaged', `the archive does not have ${whose}/${name}`)
  return content
}
