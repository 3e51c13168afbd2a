/**
 * Reads a tar archive (POSIX.1-1988 "ustar", as Postgres writes it, without extensions) from a stream. Refuses names
 * that lead outside the extraction directory.
 */
export type TarEntry =
  | { kind: 'file'; name: string; mode: number; size: number; content: AsyncIterable<Buffer> }
  | { kind: 'directory'; name: string; mode: number }
  /** Postgres stores the link from a tablespace's number to its directory in this form. */
  | { kind: 'link'; name: string; target: string }

const blockBytes = 512

/**
 * Read the content of a file before the next entry; otherwise it is skipped. @throws Error if the stream is not such an
 * archive
 */
export async function* entriesOf(source: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const reader = new BlockReader(source)
  for (;;) {
    const header = await reader.exactly(blockBytes)
    if (header.every(byte => byte === 0)) break
    const entry = parseHeader(header)
    if (entry.kind !== 'file') {
      yield entry
      continue
    }
    const content = reader.some(entry.size)
    yield { ...entry, content }
    for await (const _ of content);
    await reader.exactly((blockBytes - (entry.size % blockBytes)) % blockBytes)
  }
  await reader.toEnd()
}

type Header = Exclude<TarEntry, { kind: 'file' }> | { kind: 'file'; name: string; mode: number; size: number }

function parseHeader(header: Buffer): Header {
  const text = (from: number, to: number): string => {
    const end = header.indexOf(0, from)
    return header.toString('utf8', from, end < 0 || end > to ? to : end)
  }
  if (checksum(header) !== octal(header, 148, 156)) throw new Error('a header of the tar archive was changed')
  const prefix = text(345, 500)
  const name = safeName(prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`)
  const mode = octal(header, 100, 108) & 0o777
  const type = String.fromCharCode(header[156] ?? 0)
  if (type === '0' || type === '\0') return { kind: 'file', name, mode, size: octal(header, 124, 136) }
  if (type === '5') return { kind: 'directory', name, mode }
  if (type === '2') return { kind: 'link', name, target: text(157, 257) }
  throw new Error(`the tar archive has an entry of the unknown type ${JSON.stringify(type)}`)
}

/** A number in octal digits. If its first bit is set, it is in base 256 (GNU tar, for files of 8 GiB and more). */
function octal(header: Buffer, from: number, to: number): number {
  const first = header[from] ?? 0
  if (first & 0x80) {
    let value = first & 0x7f
    for (let at = from + 1; at < to; at++) value = value * 256 + (header[at] ?? 0)
    return value
  }
  const digits = header
    .toString('latin1', from, to)
    .replace(/[\0 ]+$/, '')
    .trim()
  if (!/^[0-7]*$/.test(digits)) throw new Error('a header of the tar archive has a number that is not octal')
  return digits === '' ? 0 : Number.parseInt(digits, 8)
}

/** The sum of the header's bytes. The bytes of the checksum itself count as spaces. */
function checksum(header: Buffer): number {
  let sum = 0
  for (let at = 0; at < blockBytes; at++) sum += at >= 148 && at < 156 ? 32 : (header[at] ?? 0)
  return sum
}

function safeName(name: string): string {
  const parts = name.replace(/^\.\//, '').replace(/\/+$/, '').split('/')
  if (parts.some(part => part === '' || part === '..' || part.includes('\0')) || name.startsWith('/'))
    throw new Error(`the tar archive has the name ${JSON.stringify(name)}, which leads outside the directory`)
  return parts.join('/')
}

/** Reads blocks of given sizes from chunks of any size. */
class BlockReader {
  readonly #source: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  async exactly(size: number): Promise<Buffer> {
    const pieces: Buffer[] = []
    for await (const piece of this.some(size)) pieces.push(piece)
    return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces)
  }

  async *some(size: number): AsyncGenerator<Buffer> {
    for (let remaining = size; remaining > 0; ) {
      if (this.#rest.length === 0) this.#rest = await this.#next()
      const piece = this.#rest.subarray(0, remaining)
      this.#rest = this.#rest.subarray(piece.length)
      remaining -= piece.length
      yield piece
    }
  }

  /** The archive ends with blocks of zeros. */
  async toEnd(): Promise<void> {
    let chunk = this.#rest
    for (;;) {
      if (chunk.some(byte => byte !== 0)) throw new Error('the tar archive continues after its end')
      const { done, value } = await this.#source.next()
      if (done) return
      chunk = value
    }
  }

  async #next(): Promise<Buffer> {
    const { done, value } = await this.#source.next()
    if (done) throw new Error('the tar archive is truncated')
    return value
  }
}
