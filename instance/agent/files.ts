/**
 * Reads and writes the agent's own files. If the agents of a machine run in one process, the directory belongs to
 * another user than that process. So the agent follows no link, and opens files without blocking.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'

export const careful = constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Opens a regular file: no link, no device. @throws if the file does not exist, or is of another kind */
export function withFile<T>(path: string, flags: number, use: (descriptor: number) => T): T {
  const descriptor = openSync(path, flags | careful, 0o600)
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error(`${path} is not a regular file`)
    return use(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Returns the text of a file. @throws if the file is larger than `mostBytes` */
export function readBounded(path: string, mostBytes: number): string {
  return withFile(path, constants.O_RDONLY, descriptor => {
    if (fstatSync(descriptor).size > mostBytes) throw new Error(`${path} is larger than ${mostBytes} bytes`)
    return readFileSync(descriptor, 'utf8')
  })
}

export const append = (path: string, text: string): void =>
  withFile(path, constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND, descriptor => {
    writeSync(descriptor, text)
  })

/** Writes the complete content, or keeps the previous content. */
export function replace(path: string, text: string): void {
  withFile(`${path}.new`, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, descriptor => {
    writeSync(descriptor, text)
  })
  renameSync(`${path}.new`, path)
}
