/** Reads the newest lines of a container's log, from the end, across its rotated files. */
import { type FileHandle, open } from 'node:fs/promises'
import { errorCode } from '../errors.ts'
import { logFile } from './write.ts'

const blockBytes = 64 * 1024
const newline = 0x0a

type LogQuery = {
  /** The largest number of lines; the newest lines are returned. */
  tailLines?: number | undefined
  /** RFC 3339. Earlier lines are omitted. */
  sinceTime?: string | undefined
}

/** The lines of one file, last line first, read in blocks from its end. */
async function* linesBackwards(file: FileHandle): AsyncGenerator<string> {
  const block = Buffer.alloc(blockBytes)
  let position = (await file.stat()).size
  let unfinished: Buffer = Buffer.alloc(0) // the line begins in an earlier block
  while (position > 0) {
    const length = Math.min(blockBytes, position)
    position -= length
    const { bytesRead } = await file.read(block, 0, length, position)
    const text = Buffer.concat([block.subarray(0, bytesRead), unfinished])
    let end = text.length
    while (end > 0) {
      const before = text.lastIndexOf(newline, end - 1)
      if (before < 0) break
      if (before + 1 < end) yield text.toString('utf8', before + 1, end)
      end = before
    }
    unfinished = text.subarray(0, end)
  }
  if (unfinished.length > 0) yield unfinished.toString('utf8')
}

/** Returns the lines, oldest first, each `<RFC 3339 time> <line>`. A container without a log has no lines. */
export async function readContainerLog(directory: string, container: string, query: LogQuery = {}): Promise<string[]> {
  const wanted = query.tailLines ?? Number.POSITIVE_INFINITY
  const since = query.sinceTime === undefined ? undefined : Date.parse(query.sinceTime)
  const newest: string[] = []
  const path = logFile(directory, container)
  for (let index = 0; newest.length < wanted; index += 1) {
    let file: FileHandle
    try {
      file = await open(index === 0 ? path : `${path}.${index}`)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error
      if (index === 0) continue // rotated just now: the newest lines are in `.1`
      break
    }
    try {
      for await (const line of linesBackwards(file)) {
        if (since !== undefined && Date.parse(line.slice(0, line.indexOf(' '))) < since) return newest.reverse()
        newest.push(line)
        if (newest.length >= wanted) break
      }
    } finally {
      await file.close()
    }
  }
  return newest.reverse()
}
