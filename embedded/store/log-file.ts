/**
 * One append-only file of frames. `append` returns once its payload is on disk. After a failed write the file is cut
 * back to where it was; only where that fails as well, or where the disk did not confirm what it was given, is the
 * file no longer to be trusted, and says so.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { encodeFrame } from './frames.ts'

/** The part of a FileHandle that is used here. */
type WritableFile = Pick<FileHandle, 'datasync' | 'truncate' | 'close'> & {
  write(buffer: Buffer, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>
}
export type OpenFile = (path: string, flags: string, mode: number) => Promise<WritableFile>
export const openFile: OpenFile = (path, flags, mode) => open(path, flags, mode)

export type LogFile = {
  /** Bytes of content in the file. */
  readonly length: number
  /** Bytes behind `length` that the file has on the disk already, as zeros. */
  readonly spare: number
  /** False once it is unknown what is on disk behind `length`: only a file made anew helps. */
  readonly trusted: boolean
  /** Writes a payload; it is on disk after the next `append`. */
  write(payload: Buffer): Promise<void>
  append(payload: Buffer): Promise<void>
  /** Gives back what was allocated behind `length`. */
  trim(): Promise<void>
  /** What was appended last is not to count: nobody must find it behind what is written next. */
  distrust(): void
  close(): Promise<void>
}

/**
 * @param start where the sound content ends; what may stand behind it is overwritten or cut off
 * @param size of the file, where zeros stand behind its content that keep their space on the disk
 */
export function logFile(file: WritableFile, start: number, size = start): LogFile {
  let length = start
  let allocated = size
  let trusted = true
  /** True while bytes of a failed write may stand behind `length`. */
  let dirty = false
  /** How many, where they stand in what was allocated. */
  let dirtyBytes = 0

  async function cutBack(): Promise<void> {
    await file.truncate(Math.max(length, allocated))
    const spoilt = Math.min(dirtyBytes, allocated - length)
    if (spoilt > 0) await put(Buffer.alloc(spoilt))
    await sync()
    dirty = false
  }

  async function sync(): Promise<void> {
    try {
      await file.datasync()
    } catch (error) {
      // After a failed fsync the kernel may report success for data that it has dropped.
      trusted = false
      throw error
    }
  }

  async function put(frame: Buffer): Promise<void> {
    let written = 0
    while (written < frame.length) {
      const { bytesWritten } = await file.write(frame, written, frame.length - written, length + written)
      written += bytesWritten
    }
  }

  async function write(payload: Buffer): Promise<number> {
    if (dirty) await cutBack()
    const frame = encodeFrame(payload)
    dirty = true
    dirtyBytes = frame.length
    try {
      await put(frame)
    } catch (error) {
      await cutBack().catch(() => undefined)
      throw error
    }
    return frame.length
  }

  return {
    get length() {
      return length
    },
    get spare() {
      return Math.max(0, allocated - length)
    },
    get trusted() {
      return trusted
    },
    async write(payload) {
      length += await write(payload)
      dirty = false
    },
    async append(payload) {
      const bytes = await write(payload)
      await sync()
      length += bytes
      dirty = false
    },
    async trim() {
      allocated = length
      await cutBack()
    },
    distrust() {
      trusted = false
    },
    close: () => file.close(),
  }
}
