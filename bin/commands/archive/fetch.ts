/**
 * `espalier archive fetch`: reads one WAL file from the archive, as Postgres's `restore_command` (manual, "Archive
 * Recovery Settings").
 */
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ArchiveError } from '../../../archive/errors.ts'
import { type Incarnation, isSegment, isWalFile, walPrefix } from '../../../archive/names.ts'
import { unsealed } from '../../../archive/object/seal.ts'
import { type Archive, readHeader } from '../../../archive/put.ts'
import { tailOf } from '../../../archive/tail.ts'
import { digestOfFile } from '../../../instance/archive/digests.ts'
import { followsOther, segmentBefore } from '../../../instance/archive/predecessor.ts'
import { type Command, parseArguments, UsageError } from '../../command.ts'
import { incarnationHelp, incarnationOf, incarnationOptions, storeHelp, storeOptions, withArchive } from './open.ts'

const help = `Reads one WAL file from the archive. Postgres runs it as its restore_command.

Usage: espalier archive fetch --store URL --key-file FILE --database ID [options] FILE PATH

  FILE                     the name of the WAL file: %f
  PATH                     the file to write: %p

${incarnationHelp}

${storeHelp}

If a segment is not completely archived, fetch writes the streamed part of it, followed by zeros.

If another server archived the previous segment, fetch treats the segment as missing.

Exit code: 0 written, 1 the archive does not have the file, 2 wrong usage, 200 the archive failed: Postgres then stops its
recovery instead of continuing without the file.`

/** Postgres stops at an exit code above 125. It treats a lower failure code as the end of the archive. */
const failed = 200

const command: Command = {
  help,
  async run(args) {
    const { values: flags, positionals } = parseArguments(args, { ...storeOptions, ...incarnationOptions })
    const [file, path, ...others] = positionals
    if (file === undefined || path === undefined || others.length > 0)
      throw new UsageError('FILE and PATH are required')
    if (!isWalFile(file)) throw new UsageError(`${JSON.stringify(file)} is not the name of a WAL file`)
    const incarnation = incarnationOf(flags)
    try {
      return await withArchive(flags, async archive => {
        const wanted = { incarnation, file, directory: dirname(path) }
        const content = (await completeFile(archive, wanted)) ?? (await paddedTail(archive, wanted))
        if (content === undefined) return 1
        // Postgres must never see an incomplete file.
        await pipeline(content, createWriteStream(`${path}.partial`, { mode: 0o600 }))
        await rename(`${path}.partial`, path)
        return 0
      })
    } catch (error) {
      await rm(`${path}.partial`, { force: true })
      if (error instanceof UsageError) throw error
      console.error(`espalier archive fetch: ${error instanceof Error ? error.message : String(error)}`)
      return failed
    }
  },
}
export default command

type Wanted = {
  incarnation: Incarnation
  file: string
  /** The directory in which Postgres keeps the segments that it has replayed. */
  directory: string
}

async function completeFile(archive: Archive, wanted: Wanted) {
  const { incarnation, file } = wanted
  const name = `${walPrefix(incarnation)}${file}`
  const stored = await archive.store.read(name)
  if (stored === undefined) return undefined
  const { header, content } = await unsealed(stored, { name, keys: archive.keys })
  const before = await digestBefore(archive, wanted, header.content?.size)
  if (before === undefined || !followsOther(Buffer.from(header.salt, 'base64'), before)) return content
  await content[Symbol.asyncIterator]().return?.()
  console.error(
    `espalier archive fetch: ${file} was archived by another server than the previous segment; the file is ignored`,
  )
  return undefined
}

/** Returns the SHA-256 of the previous segment: of the replayed file if it exists, else of the archived segment. */
async function digestBefore(
  archive: Archive,
  { incarnation, file, directory }: Wanted,
  size = defaultSegmentBytes,
): Promise<Buffer | undefined> {
  const before = isSegment(file) ? segmentBefore(file, BigInt(size)) : undefined
  if (before === undefined) return undefined
  const replayed = await digestOfFile(join(directory, before))
  if (replayed !== undefined) return replayed.sha256
  const archived = (await readHeader(archive, `${walPrefix(incarnation)}${before}`))?.content
  return archived && Buffer.from(archived.sha256, 'hex')
}

const defaultSegmentBytes = 16 * 2 ** 20

/** Returns the streamed part of a segment, padded with zeros, which Postgres treats as the end of WAL. */
async function paddedTail(archive: Archive, wanted: Wanted) {
  const { incarnation, file } = wanted
  if (!isSegment(file)) return undefined
  const chunks: Uint8Array[] = []
  try {
    const tail = await tailOf(archive, incarnation, file, await digestBefore(archive, wanted))
    for await (const chunk of tail.read()) chunks.push(chunk)
  } catch (error) {
    // The archive deletes the streamed part once the complete segment is archived.
    if (error instanceof ArchiveError && error.fault.kind === 'store' && error.fault.code === 'Gone')
      return completeFile(archive, wanted)
    throw error
  }
  const tail = Buffer.concat(chunks)
  if (tail.length === 0) return completeFile(archive, wanted)
  const size = segmentSizeOf(tail)
  if (size === undefined || tail.length > size) throw new Error(`the tail of ${file} does not start with WAL`)
  return Readable.from([tail, Buffer.alloc(size - tail.length)])
}

/**
 * Returns `xlp_seg_size` from the long header of the first page (access/xlog_internal.h). Returns undefined if the
 * segment does not start with such a header.
 */
function segmentSizeOf(segment: Buffer): number | undefined {
  if (segment.length < 40) return undefined
  return [segment.readUInt32LE(32), segment.readUInt32BE(32)].find(
    size => size >= 2 ** 20 && size <= 2 ** 30 && Number.isInteger(Math.log2(size)),
  )
}
