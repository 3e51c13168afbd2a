/**
 * One append-only file of frames. `append` returns once its payload is on disk. After a failed write the file is
 * truncated to its previous length, at the latest before the next write. If a sync fails, `trusted` becomes false.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { encodeFrame } from './frames.ts'

/** The methods of FileHandle that the store uses; tests replace them. */
type WritableFile = Pick<FileHandle, 'datasync' | 'truncate' | 'close'> & {
  write(buffer: Buffer, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>
}
export type OpenFile = (path: string, flags: string, mode: number) => Promise<WritableFile>
export const openFile: OpenFile = (path, flags, mode) => open(path, flags, mode)

export type LogFile = {
  /** Bytes of content in the file. */
  readonly length: number
  /** Bytes after `length` that are already allocated on disk, as zeros. */
  readonly spare: number
  /** False once the content on disk after `length` is unknown. Then the store needs a new file. */
  readonly trusted: boolean
  /** Writes a payload. The payload is on disk only after the next `append`. */
  write(payload: Buffer): Promise<void>
  append(payload: Buffer): Promise<void>
  /** Frees the space allocated after `length`. */
  trim(): Promise<void>
  /** Marks the file as untrusted, because no reader may read its last append. The next write starts a new file. */
  distrust(): void
  close(): Promise<void>
}

/**
 * @param start end of the undamaged content; bytes after it are overwritten or truncated
 * @param size the file size, if zeros after the content reserve disk space
 */
export function logFile(file: WritableFile, start: number, size = start): LogFile {
  let length = start
  let allocated = size
  let trusted = true
  /** True while bytes of a failed write may exist after `length`. */
  let dirty = false
  /** The number of bytes of the last write. */
  let dirtyBytes = 0

  async function removeTail(): Promise<void> {
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
    if (dirty) await removeTail()
    const frame = encodeFrame(payload)
    dirty = true
    dirtyBytes = frame.length
    try {
      await put(frame)
    } catch (error) {
      await removeTail().catch(() => undefined)
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
      await removeTail()
    },
    distrust() {
      trusted = false
    },
    close: () => file.close(),
  }
}
