/** Object names: a database's objects are below `<id>/<incarnation>/`. */

/**
 * One volume of a database: the database's id (a UUID), and the volume's number, from 1. In URIs and documents,
 * `incarnation` means only the volume's number.
 */
export type Incarnation = { readonly databaseId: string; readonly number: number }

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const incarnationNumber = /^[1-9][0-9]{0,8}$/

export const isUuid = (text: string): boolean => uuid.test(text)

/** Returns undefined unless `id` is a lower-case UUID, and `number` is 1 to 999999999, without leading zeros. */
export const parseIncarnation = (id: string, number: string): Incarnation | undefined =>
  isUuid(id) && incarnationNumber.test(number) ? { databaseId: id, number: Number(number) } : undefined

/**
 * Files that Postgres archives (manual, "Continuous Archiving"): segments, partial segments after a promotion, timeline
 * history files and backup history files.
 */
const walFile = /^([0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/

export const isWalFile = (name: string): boolean => walFile.test(name)

const segmentFile = /^[0-9A-F]{24}$/

export const isSegment = (name: string): boolean => segmentFile.test(name)

/** The prefix of all objects of an incarnation. */
export const incarnationPrefix = ({ databaseId, number }: Incarnation): string => `${databaseId}/${number}/`

export const walPrefix = (incarnation: Incarnation): string => `${incarnationPrefix(incarnation)}wal/`

/** The prefix of pieces. Agents send a piece before the complete segment is archived. */
export const tailPrefix = (incarnation: Incarnation): string => `${incarnationPrefix(incarnation)}tail/`

/** A byte range of a segment. `stream`: the id of the sender's stream; absent in pieces of earlier versions. */
export type Piece = {
  readonly segment: string
  readonly offset: number
  readonly length: number
  readonly stream: string | undefined
}

const pieceName = /^([0-9A-F]{24})\.([0-9A-F]{8})-([0-9A-F]{8})(?:\.([0-9a-f]{16}))?$/
export const mostPieceBytes = 4 * 1024 * 1024

/**
 * `<segment>.<offset>-<length>[.<stream>]`, in hexadecimal digits. Returns undefined if `name` has another form, or if
 * the piece is empty or larger than 4 MiB.
 */
export function parsePiece(name: string): Piece | undefined {
  const [, segment, offset = '', length = '', stream] = pieceName.exec(name) ?? []
  if (segment === undefined) return undefined
  const piece = { segment, offset: Number.parseInt(offset, 16), length: Number.parseInt(length, 16), stream }
  return piece.length >= 1 && piece.length <= mostPieceBytes ? piece : undefined
}

/** The object that shows whether the store's key is configured. */
export const keyCheckName = 'key-check'

/** The prefix of probe objects. A program that opens an S3 store writes and deletes a probe object. */
export const probePrefix = 'check-'

const identityPrefix = 'urn:espalier:archive:'

/** The URI in a database's certificate. It permits access to this incarnation's objects only (see request.ts). */
export const identityOf = ({ databaseId, number }: Incarnation): string => `${identityPrefix}${databaseId}:${number}`

export type Identity =
  /** A database: writes and reads the objects of one of its incarnations. */
  | { readonly kind: 'writer'; readonly incarnation: Incarnation }
  /** A restore: reads the objects of one incarnation. */
  | { readonly kind: 'reader'; readonly incarnation: Incarnation }
  /** The operator: lists objects, reads records and deletes objects of every database. It cannot read or write data. */
  | { readonly kind: 'operator' }

/**
 * `urn:espalier:archive:`, followed by `<id>:<incarnation>`, `read:<id>:<incarnation>` or `operator`. Undefined for any
 * other URI.
 */
export function parseIdentity(uri: string): Identity | undefined {
  if (!uri.startsWith(identityPrefix)) return undefined
  const text = uri.slice(identityPrefix.length)
  if (text === 'operator') return { kind: 'operator' }
  const isReader = text.startsWith('read:')
  const [id = '', number = '', ...others] = (isReader ? text.slice('read:'.length) : text).split(':')
  const incarnation = others.length === 0 ? parseIncarnation(id, number) : undefined
  return incarnation && { kind: isReader ? 'reader' : 'writer', incarnation }
}
