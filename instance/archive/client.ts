/** A client of the archive for the incarnation that the certificate names. */
import { X509Certificate } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type Answer,
  type ArchiveCertificates,
  ArchiveFault,
  type Content,
  createArchiveTransport,
} from './transport.ts'

export type ArchiveClient = {
  /**
   * Makes one attempt. @param path below `/v1/<id>/<incarnation>/`
   * @throws ArchiveFault for any status except 2xx, and except 404 of GET and HEAD
   */
  send(method: 'GET' | 'HEAD' | 'PUT' | 'DELETE', path: string, options: SendOptions): Promise<Answer>
  /** Whether the archive accepts compressed content, according to its last response. */
  acceptsZstd(): boolean
  /** Whether the archive accepts pieces that name their stream, according to its last response. */
  acceptsStreams(): boolean
  certificates(): ArchiveCertificates
  close(): void
}
/** `isSlow`: the archive reads or deletes a whole backup before it answers. */
type SendOptions = {
  content?: Content
  /** SHA-256 of the previous segment. */
  predecessor?: Buffer | undefined
  isSlow?: boolean
  signal: AbortSignal
}

const idleMs = 20_000
const slowMs = 600_000
/** Maximum size of a response: an error or a record. */
const mostBytes = 16 * 1024 * 1024
const identity = /^URI:urn:espalier:archive:([0-9a-f-]{36}):([1-9][0-9]{0,8})$/

/** `/v1/<id>/<incarnation>/`, from the certificate's URI. */
function prefixOf({ cert }: ArchiveCertificates): string {
  const found = identity.exec(new X509Certificate(cert).subjectAltName ?? '')
  if (found === null) throw new ArchiveFault('certificate', 'the certificate for the archive names no incarnation')
  return `/v1/${found[1]}/${found[2]}/`
}

/** @param url `https://host:port` @param tls the directory with archive.crt, archive.key and ca.crt */
export function createArchiveClient(url: string, tls: string, now: () => number): ArchiveClient {
  const transport = createArchiveTransport(url, tls, now)
  let known: { cert: string; prefix: string } | undefined
  let acceptsZstd = false
  let acceptsStreams = false
  const prefix = () => {
    const certificates = transport.certificates()
    if (known?.cert !== certificates.cert) known = { cert: certificates.cert, prefix: prefixOf(certificates) }
    return known.prefix
  }
  return {
    certificates: transport.certificates,
    close: transport.close,
    acceptsZstd: () => acceptsZstd,
    acceptsStreams: () => acceptsStreams,
    async send(method, path, { content, predecessor, isSlow = false, signal }) {
      const options = { content, predecessor, idleMs: isSlow ? slowMs : idleMs, mostBytes, signal }
      const answer = await transport.send(method, `${prefix()}${path}`, options)
      acceptsZstd = answer.headers['accept-encoding'] === 'zstd'
      acceptsStreams = answer.headers['espalier-pieces'] === 'stream'
      // A 404 of PUT or DELETE is an error: the archive, or a proxy in front of it, does not know the path.
      const mayBeMissing = method === 'GET' || method === 'HEAD'
      return faultUnlessDone(answer, mayBeMissing)
    },
  }
}

function faultUnlessDone(answer: Answer, mayBeMissing: boolean): Answer {
  if ((answer.status >= 200 && answer.status < 300) || (mayBeMissing && answer.status === 404)) return answer
  let reply: unknown
  try {
    reply = JSON.parse(answer.body.toString('utf8'))
  } catch {
    // The status is sufficient.
  }
  const { code, message } = Object(reply)
  throw new ArchiveFault(
    typeof code === 'string' ? code.slice(0, 40) : `status_${answer.status}`,
    `the archive answered ${answer.status}${typeof message === 'string' ? `: ${message.slice(0, 300)}` : ''}`,
    answer.status,
  )
}

export function faultOf(error: unknown): { code: string; message: string } {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'error'
  return { code, message: (error instanceof Error ? error.message : String(error)).slice(0, 400) }
}

const firstPauseMs = 100
const longestPauseMs = 10_000

/** The delay after attempt number `attempt` (from 1). It doubles with each attempt, and half of it is random. */
export function pauseMs(attempt: number, random = Math.random): number {
  const fullMs = Math.min(firstPauseMs * 2 ** Math.min(attempt - 1, 20), longestPauseMs)
  return fullMs / 2 + (random() * fullMs) / 2
}

const isPermanent = ({ code, status }: ArchiveFault): boolean =>
  code === 'conflict' || code === 'incomplete' || status === 413

/**
 * Repeats `work` until it succeeds.
 * @throws ArchiveFault if a retry cannot succeed: `conflict`, `incomplete`, or content that is too large (413); the
 * reason of `signal`
 */
export async function patiently<Result>(
  work: () => Promise<Result>,
  { signal, failed }: { signal: AbortSignal; failed: (error: unknown) => void },
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      failed(error)
      if (error instanceof ArchiveFault && isPermanent(error)) throw error
      await delay(pauseMs(attempt), undefined, { signal })
    }
  }
}
