/**
 * Forwards new log entries as JSON lines, for readers of container output: `kubectl logs` and log collectors. The
 * forwarder omits possible passwords, and limits the rate. It skips entries above the limit, and writes a line with the
 * number of skipped bytes. It stores its position in a file, so that a restarted agent continues there.
 */
import { readSync } from 'node:fs'
import { isAboutCollector } from '../../log/entry.ts'
import { entryOfLine } from '../../log/json.ts'
import { presented } from '../../log/present.ts'
import { readBounded, replace } from '../files.ts'
import type { LogDirectory, LogFile } from './directory.ts'

/** Size of one read. */
const blockBytes = 64 * 1024
/** If more bytes than this are unread, the forwarder forwards only the newest block. */
const mostBehind = 4 * blockBytes
const newline = 0x0a

/** The position up to which entries were forwarded. */
type Position = { name: string; offset: number }

export type Forwarder = {
  /** Forwards a block. @returns whether more is unread */
  pass(directory: LogDirectory): boolean
}

function readPosition(path: string): Position | undefined {
  try {
    const { name, offset }: Record<string, unknown> = JSON.parse(readBounded(path, 1024))
    return typeof name === 'string' && Number.isSafeInteger(offset) ? { name, offset: Number(offset) } : undefined
  } catch {
    return undefined
  }
}

/**
 * Returns the file of the position and all newer files, oldest first, with the position in each. Without a stored
 * position, returns only the newest file, because Postgres opened this file when it started in this pod.
 */
function remaining(files: readonly LogFile[], at: Position | undefined): (Position & { bytes: number })[] {
  const ofJson = files.filter(({ kind }) => kind === 'json')
  const first = at?.name ?? ofJson.at(-1)?.name ?? ''
  return ofJson
    .filter(({ name }) => name >= first)
    .map(({ name, bytes }) => {
      const before = name === at?.name ? at.offset : 0
      // The file was truncated: start again at its beginning.
      const offset = before > bytes ? 0 : before
      return { name, offset, bytes: bytes - offset }
    })
}

const linesIn = (text: string): string[] =>
  text.split('\n').flatMap(line => {
    const entry = entryOfLine(line)
    return entry === undefined || isAboutCollector(entry) ? [] : [`${JSON.stringify(presented(entry))}\n`]
  })

const readBlock = (directory: LogDirectory, { name, offset }: Position): Buffer =>
  directory.use(name, descriptor => {
    const block = Buffer.alloc(blockBytes)
    return block.subarray(0, readSync(descriptor, block, 0, blockBytes, offset))
  })

/** `path`: the file that stores the position. `write`: accepts complete lines. */
export function createForwarder(path: string, write: (text: string) => void): Forwarder {
  let position = readPosition(path)
  const moveTo = (next: Position) => {
    if (next.name === position?.name && next.offset === position.offset) return
    position = next
    try {
      replace(path, JSON.stringify(next))
    } catch {
      // After a restart, some entries may be repeated.
    }
  }
  const reportOmitted = (bytes: number, reason: string) => {
    if (bytes > 0) write(`(${bytes} bytes of the log are omitted here: ${reason})\n`)
  }

  return {
    pass(directory) {
      const files = remaining(directory.files, position)
      const behind = files.reduce((sum, { bytes }) => sum + bytes, 0)
      const last = files.at(-1)
      if (last === undefined || behind === 0) return false
      const isTooFar = behind > mostBehind
      const newest = { name: last.name, offset: last.offset + Math.max(0, last.bytes - blockBytes) }
      const [first = newest] = files.filter(({ bytes }) => bytes > 0)
      const from = isTooFar ? newest : first
      const block = readBlock(directory, from)
      const begin = isTooFar && from.offset > 0 ? block.indexOf(newline) + 1 : 0
      const end = block.lastIndexOf(newline) + 1
      const isLast = from.name === last.name
      if (isTooFar) reportOmitted(behind - Math.max(0, end - begin), 'more than 256 KiB of the log were unread')
      // A line longer than a block, or one that is never completed, is skipped.
      const isPassedOver = end === 0 && (block.length === blockBytes || !isLast)
      if (isPassedOver && !isTooFar) reportOmitted(block.length, 'a line is incomplete or longer than 64 KiB')
      if (end > begin) write(linesIn(block.toString('utf8', begin, end)).join(''))
      moveTo({ name: from.name, offset: from.offset + (isPassedOver ? block.length : end) })
      return !isLast || from.offset + block.length < last.offset + last.bytes
    },
  }
}
