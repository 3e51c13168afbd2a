/**
 * Reads the tail of a segment that is not yet archived completely. A piece is a byte range of a segment. A stream is a
 * sequence of pieces from one sender. The tail is the bytes of one stream before its first gap. If there are several
 * streams, the tail comes from the stream that reaches furthest. Pieces with different stream ids are never joined: if
 * two servers archive under one identity, their bytes differ. Pieces of earlier versions have no stream in their names:
 * these pieces are joined with every stream's pieces.
 */
import { followsOther } from '../instance/archive/predecessor.ts'
import { ArchiveError } from './errors.ts'
import { type Incarnation, type Piece, parsePiece, tailPrefix } from './names.ts'
import { unsealed } from './object/seal.ts'
import { type Archive, readHeader } from './put.ts'

type StoredPiece = Piece & { name: string }

type Tail = {
  /** The number of bytes from the segment's first byte to the first gap. */
  readonly length: number
  /** @throws ArchiveError `damaged`, `store` or `unknown key`, while the content is read */
  read(): AsyncGenerator<Uint8Array>
}

async function piecesOf({ store }: Archive, incarnation: Incarnation, segment: string): Promise<StoredPiece[]> {
  const prefix = tailPrefix(incarnation)
  const pieces: StoredPiece[] = []
  for await (const { name } of store.list(`${prefix}${segment}.`)) {
    const piece = parsePiece(name.slice(prefix.length))
    if (piece !== undefined) pieces.push({ ...piece, name })
  }
  return pieces
}

/**
 * A salt can identify the previous segment. Omits a stream if the salt of its first piece identifies a segment other
 * than `predecessor`. Keeps streams with a random salt.
 * `predecessor`: the SHA-256 of the segment that was replayed last.
 */
async function followingOf(
  archive: Archive,
  pieces: readonly StoredPiece[],
  predecessor: Buffer | undefined,
): Promise<readonly StoredPiece[]> {
  if (predecessor === undefined) return pieces
  const others = new Set<string | undefined>()
  for (const { name, offset, stream } of pieces) {
    if (offset > 0) continue
    const salt = (await readHeader(archive, name))?.salt
    if (salt !== undefined && followsOther(Buffer.from(salt, 'base64'), predecessor)) others.add(stream)
  }
  return pieces.filter(({ stream }) => stream === undefined || !others.has(stream))
}

/** `skip`: how many bytes at the piece's start are also in earlier pieces. */
type Cover = { cover: { piece: StoredPiece; skip: number }[]; length: number }

function longestOf(pieces: readonly StoredPiece[]): Cover {
  const streams = [...new Set(pieces.map(({ stream }) => stream))].sort()
  const covers = streams.map(one => coverOf(pieces.filter(({ stream }) => stream === undefined || stream === one)))
  return covers.reduce((longest, next) => (next.length > longest.length ? next : longest), { cover: [], length: 0 })
}

/** The pieces that cover a segment from its first byte on. */
function coverOf(pieces: readonly StoredPiece[]): Cover {
  const cover: { piece: StoredPiece; skip: number }[] = []
  let length = 0
  for (;;) {
    const reaching = pieces.filter(piece => piece.offset <= length && piece.offset + piece.length > length)
    const next = reaching.toSorted((one, other) => other.offset + other.length - one.offset - one.length)[0]
    if (next === undefined) return { cover, length }
    cover.push({ piece: next, skip: length - next.offset })
    length = next.offset + next.length
  }
}

/**
 * @param predecessor the SHA-256 of the segment that was replayed last. Omits streams whose salt identifies another
 *   segment
 * @throws ArchiveError `store`; with a predecessor also `damaged` or `unknown key`
 */
export async function tailOf(
  archive: Archive,
  incarnation: Incarnation,
  segment: string,
  predecessor?: Buffer,
): Promise<Tail> {
  const pieces = await piecesOf(archive, incarnation, segment)
  const { cover, length } = longestOf(await followingOf(archive, pieces, predecessor))
  return {
    length,
    async *read() {
      for (const { piece, skip } of cover) yield* contentOf(archive, piece, skip)
    },
  }
}

async function* contentOf({ store, keys }: Archive, { name }: StoredPiece, skip: number): AsyncGenerator<Uint8Array> {
  const stored = await store.read(name)
  // `deleteTail` or `deleteWal` can delete the piece after `piecesOf` has listed it.
  if (stored === undefined) throw missing(name)
  let remaining = skip
  for await (const chunk of (await unsealed(stored, { name, keys })).content) {
    const rest = chunk.subarray(Math.min(remaining, chunk.length))
    remaining -= chunk.length - rest.length
    if (rest.length > 0) yield rest
  }
}

const missing = (name: string) =>
  new ArchiveError({
    kind: 'store',
    name,
    code: 'Gone',
    detail: 'the piece was deleted during the request; try again',
    isTemporary: true,
  })

const concurrentDeletes = 16

/** Deletes several objects concurrently. @throws ArchiveError `store` */
export async function deleteAll({ store }: Archive, names: readonly string[]): Promise<void> {
  for (let at = 0; at < names.length; at += concurrentDeletes)
    await Promise.all(names.slice(at, at + concurrentDeletes).map(name => store.delete(name)))
}

/** Deletes the pieces of a completely archived segment. @throws ArchiveError `store` */
export async function deleteTail(archive: Archive, incarnation: Incarnation, segment: string): Promise<void> {
  const names = (await piecesOf(archive, incarnation, segment)).map(({ name }) => name)
  await deleteAll(archive, names)
}
