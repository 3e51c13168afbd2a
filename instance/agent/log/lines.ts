/** The lines of a file, last line first, read in blocks from its end. Memory use is limited for any content. */
import type { FileHandle } from 'node:fs/promises'

const blockBytes = 64 * 1024
/** For a longer line, only the beginning is returned. */
const longestLine = 256 * 1024
const newline = 0x0a

type Line = { text: string; isTruncated: boolean }

/** `onBlock` is called for each block that is read. If it returns false, reading stops. */
export async function* linesBackwards(file: FileHandle, onBlock: (bytes: number) => boolean): AsyncGenerator<Line> {
  const block = Buffer.alloc(blockBytes)
  let position = (await file.stat()).size
  /** The part read so far of a line that begins in an earlier block. */
  let rest: Buffer = Buffer.alloc(0)
  let isTruncated = false
  while (position > 0) {
    const length = Math.min(blockBytes, position)
    position -= length
    const { bytesRead } = await file.read(block, 0, length, position)
    if (bytesRead < length) return // the file was truncated meanwhile
    if (!onBlock(bytesRead)) return
    const text = Buffer.concat([block.subarray(0, bytesRead), rest])
    let end = text.length
    for (let before = text.lastIndexOf(newline, end - 1); before >= 0; ) {
      if (before + 1 < end) yield { text: text.toString('utf8', before + 1, end), isTruncated }
      isTruncated = false
      end = before
      before = end === 0 ? -1 : text.lastIndexOf(newline, end - 1)
    }
    isTruncated ||= end > longestLine
    rest = text.subarray(0, Math.min(end, longestLine))
  }
  if (rest.length > 0) yield { text: rest.toString('utf8'), isTruncated }
}
