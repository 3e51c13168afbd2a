/**
 * Writes a container's output to one file of lines `<RFC 3339 time> <line>`. A full file is rotated. Memory use is
 * bounded: lines are written as they arrive, and output above the rate limit is dropped and counted. After a drop, the
 * reader of the output pauses, so that a flood slows down only its own container. On a full disk, lines are lost
 * without other effects.
 */
import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'

type LogLimits = {
  fileBytes: number
  /** The number of files: the current file and its predecessors `.1`, `.2`, ... */
  files: number
  /** A longer line is split. */
  lineBytes: number
  /** Output above this rate is dropped. A burst may have up to one file's size. */
  bytesPerSecond: number
}

export const defaultLogLimits: LogLimits = {
  fileBytes: 10 * 1024 * 1024,
  files: 3,
  lineBytes: 64 * 1024,
  bytesPerSecond: 4 * 1024 * 1024,
}

type LogStream = {
  /** Returns false if output was dropped; then the caller pauses before it reads more. */
  push(chunk: Buffer): boolean
  end(): void
}

export type ContainerLog = {
  /** Returns a writer for one stream, which accepts chunks of any size. */
  stream(): LogStream
  close(): void
}

const newline = 0x0a
export const logFile = (directory: string, container: string): string => join(directory, `${container}.log`)

/** Opens the log of a container, or continues the existing log. */
export function openContainerLog(
  directory: string,
  container: string,
  limits: LogLimits = defaultLogLimits,
  now: () => number = Date.now,
): ContainerLog {
  const path = logFile(directory, container)
  let file: number | undefined
  let size = 0
  let allowance = limits.fileBytes
  let refilledAt = now()
  let dropped = 0

  function open(): number {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    file = openSync(path, 'a', 0o600)
    size = fstatSync(file).size
    return file
  }
  function rotateLog(): void {
    if (file !== undefined) closeSync(file)
    file = undefined
    for (let index = limits.files - 1; index > 0; index -= 1) {
      try {
        renameSync(index === 1 ? path : `${path}.${index - 1}`, `${path}.${index}`)
      } catch {
        // this file does not exist yet
      }
    }
  }
  function append(text: Buffer): void {
    try {
      if (file !== undefined && size + text.length > limits.fileBytes) rotateLog()
      size += writeSync(file ?? open(), text)
    } catch {
      dropped += text.length
    }
  }
  function spend(bytes: number): boolean {
    const time = now()
    allowance = Math.min(limits.fileBytes, allowance + ((time - refilledAt) / 1000) * limits.bytesPerSecond)
    refilledAt = time
    if (allowance < bytes) return false
    allowance -= bytes
    return true
  }
  /** Writes complete lines with the current time; false if they were dropped. */
  function writeLines(lines: Buffer[]): boolean {
    const bytes = lines.reduce((sum, line) => sum + line.length + 26, 0)
    if (!spend(bytes)) {
      dropped += bytes
      return false
    }
    const stamp = `${new Date(now()).toISOString()} `
    const notice = dropped > 0 ? [Buffer.from(`${stamp}(${dropped} bytes of output dropped)\n`)] : []
    dropped = 0
    append(Buffer.concat([...notice, ...lines.flatMap(line => [Buffer.from(stamp), line, Buffer.from('\n')])]))
    return true
  }

  return {
    stream() {
      let rest: Buffer = Buffer.alloc(0)
      return {
        push(chunk) {
          const lines: Buffer[] = []
          let text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
          for (;;) {
            const end = text.indexOf(newline)
            if (end < 0 && text.length < limits.lineBytes) break
            const length = end < 0 || end > limits.lineBytes ? limits.lineBytes : end
            lines.push(text.subarray(0, length))
            text = text.subarray(length === end ? end + 1 : length)
          }
          rest = Buffer.from(text) // a copy, so that the full chunk is not retained
          return lines.length === 0 || writeLines(lines)
        },
        end() {
          if (rest.length > 0) writeLines([rest])
          rest = Buffer.alloc(0)
        },
      }
    },
    close() {
      if (file !== undefined) closeSync(file)
      file = undefined
    },
  }
}
