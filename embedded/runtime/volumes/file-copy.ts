/** Copies the content of one file if blocks cannot be shared. Keeps its holes, and writes only changed parts. */
import {
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'

const blockBytes = 1024 * 1024
/** The unit of comparing and writing. */
const pieceBytes = 64 * 1024
const bytesOfStatBlock = 512

const [sourceBlock, copyBlock] = [Buffer.allocUnsafe(blockBytes), Buffer.allocUnsafe(blockBytes)]
const zeros = Buffer.alloc(pieceBytes)

/** @param source a descriptor, open for reading. @returns the number of written bytes */
export function writeCopy(source: number, to: string): number {
  const { size, blocks } = fstatSync(source)
  rmSync(to, { force: true })
  if (blocks * bytesOfStatBlock >= size) {
    copyFileSync(`/proc/self/fd/${source}`, to)
    return size
  }
  const copy = openSync(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  try {
    return writePieces(source, copy, (block, start, end) => block.compare(zeros, 0, end - start, start, end) !== 0)
  } finally {
    closeSync(copy)
  }
}

/** Updates an earlier copy. @param source a descriptor, open for reading. @returns the number of written bytes */
export function updateCopy(source: number, to: string): number {
  const copy = openSync(to, constants.O_RDWR | constants.O_NOFOLLOW)
  try {
    let before = { position: -1, length: 0 }
    return writePieces(source, copy, (block, start, end, position) => {
      if (before.position !== position)
        before = { position, length: readSync(copy, copyBlock, 0, blockBytes, position) }
      return end > before.length || block.compare(copyBlock, start, end, start, end) !== 0
    })
  } finally {
    closeSync(copy)
  }
}

/** Writes the parts of a file that differ from its copy. `position`: offset of the block in the file. */
function writePieces(
  source: number,
  copy: number,
  differs: (block: Buffer, start: number, end: number, position: number) => boolean,
): number {
  let written = 0
  let position = 0
  for (;;) {
    const length = readSync(source, sourceBlock, 0, blockBytes, position)
    if (length === 0) break
    for (let start = 0; start < length; start += pieceBytes) {
      const end = Math.min(start + pieceBytes, length)
      if (differs(sourceBlock, start, end, position)) written += writeAll(copy, start, end, position + start)
    }
    position += length
  }
  ftruncateSync(copy, position)
  return written
}

function writeAll(copy: number, start: number, end: number, position: number): number {
  for (let done = start; done < end; ) done += writeSync(copy, sourceBlock, done, end - done, position + done - start)
  return end - start
}
