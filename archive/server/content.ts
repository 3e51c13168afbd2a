/**
 * HTTP fields of a body: its digest, its size, and whether it is compressed.
 *
 * - A plain body has `content-length` and `content-digest` (RFC 9530).
 * - A compressed body (`content-encoding: zstd`) has `espalier-length` and `unencoded-digest`: size and digest of the
 *   decompressed content. Its `content-digest`, if present, is the digest of the compressed bytes.
 */
import type { Content } from '../object/header.ts'
import { type Answer, refusal } from './answer.ts'

type Fields = { readonly [name: string]: string | readonly string[] | undefined }
type Parsed =
  | { kind: 'parsed'; value: Content; isCompressed: boolean; encodedSha256: string | undefined }
  | { kind: 'refused'; answer: Answer }

/** The maximum size of a file. Segments of Espalier databases have 16 MiB. Segments of other servers can be larger. */
export const mostFileBytes = 64 * 1024 * 1024

const bad = (message: string, status = 400): Parsed => ({
  kind: 'refused',
  answer: refusal(status, 'bad_request', message),
})

/** Parses the digest and size fields of a request body. */
export function parseContent(fields: Fields, mostBytes = mostFileBytes): Parsed {
  const encoding = fields['content-encoding']
  if (encoding !== undefined && encoding !== 'zstd')
    return { kind: 'refused', answer: refusal(415, 'bad_request', 'content-encoding: only zstd is allowed', accepted) }
  const isCompressed = encoding !== undefined
  const [ofSize, ofDigest] = isCompressed
    ? (['espalier-length', 'unencoded-digest'] as const)
    : (['content-length', 'content-digest'] as const)
  const [length, digest] = [fields[ofSize], fields[ofDigest]]
  if (typeof length !== 'string') return bad(`${ofSize}: required; must be a number of bytes`, 411)
  if (!/^[0-9]{1,12}$/.test(length)) return bad(`${ofSize}: must be a number of bytes`)
  const size = Number(length)
  if (size > mostBytes) return bad(`${ofSize}: must be at most ${mostBytes} bytes`, 413)
  const sha256 = parseDigest(digest)
  if (sha256 === undefined) return bad(`${ofDigest}: must be sha-256=:<base64>:`)
  const encodedSha256 = isCompressed ? parseDigest(fields['content-digest']) : undefined
  if (isCompressed && fields['content-digest'] !== undefined && encodedSha256 === undefined)
    return bad('content-digest: must be sha-256=:<base64>:')
  return { kind: 'parsed', value: { sha256, size }, isCompressed, encodedSha256 }
}

function parseDigest(digest: Fields[string]): string | undefined {
  const found = typeof digest === 'string' ? /^sha-256=:([A-Za-z0-9+/]{43}=):$/.exec(digest) : null
  return found?.[1] === undefined ? undefined : Buffer.from(found[1], 'base64').toString('hex')
}

/**
 * The SHA-256 of the previous segment. Undefined if the request has no `espalier-predecessor`: earlier versions do not
 * send this field.
 */
export function parsePredecessor(fields: Fields): Buffer | undefined | 'invalid' {
  const field = fields['espalier-predecessor']
  if (field === undefined) return undefined
  const digest = parseDigest(field)
  return digest === undefined ? 'invalid' : Buffer.from(digest, 'hex')
}

/** The archive sends this field. A client that receives it may send compressed bodies (RFC 7694). */
export const accepted = { 'accept-encoding': 'zstd' } as const

/** The archive sends this field. A client that receives it may add the stream's id to a piece's name. */
export const acceptedPieces = { 'espalier-pieces': 'stream' } as const

/** Compares the whole field: clients of the archive send exactly `zstd`, not a list. */
export const acceptsZstd = (fields: Fields): boolean => fields['accept-encoding'] === 'zstd'

export const renderDigest = ({ sha256 }: Content): string =>
  `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`

export const renderPlain = (content: Content) => ({
  'content-length': content.size,
  'content-digest': renderDigest(content),
})

export const renderCompressed = (content: Content) => ({
  'content-encoding': 'zstd',
  'espalier-length': content.size,
  'unencoded-digest': renderDigest(content),
})
