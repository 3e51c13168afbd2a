/**
 * Sends requests to the archive with mutual TLS, for writers and readers. Keeps connections alive. Reads the
 * certificates again after ten seconds and after a failed request, so that renewed certificates need no restart. If a
 * key and a certificate that do not match are read during a renewal, only one attempt fails.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { join } from 'node:path'

export type ArchiveCertificates = { cert: string; key: string; ca: string }

/** The archive refused a request, or could not be reached. */
export class ArchiveFault extends Error {
  /** `conflict`: other content is stored under the name. */
  readonly code: string
  /** The status of the archive's response, if there was one. */
  readonly status: number | undefined
  constructor(code: string, message: string, status?: number) {
    super(message)
    this.name = 'ArchiveFault'
    this.code = code
    this.status = status
  }
}

/**
 * The content to send: bytes, or a stream that can be restarted for each attempt. A chunk is valid until the next chunk
 * is requested. `sha256` and `size` describe the content before compression. `compressed`: the chunks are compressed
 * with zstd; digest and size of the compressed bytes, if known.
 */
export type Content = {
  sha256: Buffer
  size: number
  compressed?: { size: number; sha256: Buffer } | { size: undefined }
  chunks: () => AsyncIterable<Buffer> | Iterable<Buffer>
}

export const contentOf = (bytes: Buffer): Content => ({
  sha256: createHash('sha256').update(bytes).digest(),
  size: bytes.length,
  chunks: () => slicesOf(bytes),
})

/** TLS keeps an encrypted copy of each write. A write of a complete part would double the memory. */
const sliceBytes = 64 * 1024
export function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, at + sliceBytes)
}

export type Answer = { status: number; headers: IncomingMessage['headers']; body: Buffer }

type RequestOptions = {
  content?: Content | undefined
  /** SHA-256 of the previous segment. */
  predecessor?: Buffer | undefined
  /** Accepts a compressed response. Its field `content-encoding` says whether it is compressed. */
  acceptsZstd?: boolean
  /** Idle timeout for sending and receiving. */
  idleMs: number
  /** Maximum size of the response. */
  mostBytes: number
  signal?: AbortSignal | undefined
}

type ArchiveTransport = {
  /**
   * Makes one attempt. @param path the path of the URL @throws ArchiveFault `timeout`, `answer`; the connection's error
   */
  send(method: 'GET' | 'HEAD' | 'PUT' | 'DELETE', path: string, options: RequestOptions): Promise<Answer>
  certificates(): ArchiveCertificates
  close(): void
}

const readAgainMs = 10_000

function readFiles(directory: string): ArchiveCertificates {
  const read = (name: string) => readFileSync(join(directory, name), 'utf8')
  return { cert: read('archive.crt'), key: read('archive.key'), ca: read('ca.crt') }
}

/** @param url `https://host:port` @param tls the directory with archive.crt, archive.key and ca.crt */
export function createArchiveTransport(url: string, tls: string, now: () => number): ArchiveTransport {
  const agent = new Agent({ keepAlive: true, maxSockets: 8, maxFreeSockets: 4 })
  let known: { certificates: ArchiveCertificates; at: number } | undefined
  const certificates = () => {
    if (known === undefined || Math.abs(now() - known.at) >= readAgainMs)
      known = { certificates: readFiles(tls), at: now() }
    return known.certificates
  }
  return {
    certificates,
    close: () => agent.destroy(),
    async send(method, path, { content, predecessor, acceptsZstd = false, idleMs, mostBytes, signal }) {
      signal?.throwIfAborted()
      try {
        const sent = request(new URL(path, url), {
          ...{ method, agent, signal, timeout: idleMs, minVersion: 'TLSv1.3' as const },
          ...certificates(),
          headers: {
            ...fieldsOf(content),
            ...(predecessor === undefined ? {} : { 'espalier-predecessor': digestField(predecessor) }),
            ...(acceptsZstd ? { 'accept-encoding': 'zstd' } : {}),
          },
        })
        return await exchange(sent, content, mostBytes)
      } catch (error) {
        known = undefined
        throw error
      }
    },
  }
}

const digestField = (digest: Buffer): string => `sha-256=:${digest.toString('base64')}:`

/** Without `content-length`, Node sends the content with chunked encoding. */
function fieldsOf(content: Content | undefined): Record<string, string | number> {
  if (content === undefined) return { 'content-length': 0 }
  const { sha256, size, compressed } = content
  if (compressed === undefined) return { 'content-digest': digestField(sha256), 'content-length': size }
  return {
    ...{ 'content-encoding': 'zstd', 'unencoded-digest': digestField(sha256), 'espalier-length': size },
    ...(compressed.size === undefined
      ? {}
      : { 'content-digest': digestField(compressed.sha256), 'content-length': compressed.size }),
  }
}

async function exchange(
  sent: ReturnType<typeof request>,
  content: Content | undefined,
  mostBytes: number,
): Promise<Answer> {
  const answered = new Promise<Answer>((resolve, reject) => {
    sent.once('timeout', () => sent.destroy(new ArchiveFault('timeout', 'the archive does not answer')))
    sent.on('error', reject)
    sent.once('response', response => {
      bodyOf(response, mostBytes).then(
        body => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        reject,
      )
    })
  })
  // It is awaited below. A rejection before that would have no handler, and Node would end the process.
  answered.catch(() => {})
  try {
    for await (const chunk of content?.chunks() ?? [])
      await Promise.race([new Promise(resolve => sent.write(chunk, resolve)), answered])
    sent.end()
  } catch (error) {
    sent.destroy(error instanceof Error ? error : new Error(String(error)))
  }
  return answered
}

async function bodyOf(response: IncomingMessage, mostBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response) {
    chunks.push(chunk)
    size += chunk.length
    if (size > mostBytes) throw new ArchiveFault('answer', `the archive answered with more than ${mostBytes} bytes`)
  }
  if (!response.complete)
    throw new ArchiveFault('answer', 'the archive closed the connection in the middle of an answer')
  return Buffer.concat(chunks)
}
