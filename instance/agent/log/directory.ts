/**
 * Access to the directory of Postgres's log. The directory belongs to Postgres. If one process runs all agents of a
 * machine, that process has another user than the directory. So the agent accesses the directory by its descriptor,
 * follows no link, and accesses only files with names of Postgres's log.
 */
import { closeSync, constants, ftruncateSync, lstatSync, openSync, readdirSync, unlinkSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { ownerFile, readName } from '../../log/directory.ts'
import { careful, readBounded, withFile } from '../files.ts'

export type LogFile = { name: string; kind: 'json' | 'log'; begunAt: number; bytes: number }

export type LogDirectory = {
  /** Log files of both kinds, oldest first. */
  files: LogFile[]
  /** Opens a log file. @throws if the file is missing or is not a regular file */
  open(name: string): Promise<FileHandle>
  /** Calls `work` with the file's descriptor. @throws as `open` does */
  use<T>(name: string, work: (descriptor: number) => T): T
  remove(name: string): void
  empty(name: string): void
  close(): void
}

/** Maximum size of the owner file. */
const mostOwnerBytes = 256

const tryTo = <T>(what: () => T): T | undefined => {
  try {
    return what()
  } catch {
    return undefined
  }
}

const ownerIn = (base: string): string | undefined =>
  tryTo(() => readBounded(join(base, ownerFile), mostOwnerBytes).trim())

function filesIn(base: string): LogFile[] {
  const files = readdirSync(base).flatMap(name => {
    const read = readName(name)
    const stats = read && tryTo(() => lstatSync(join(base, name)))
    return read && stats?.isFile() ? [{ name, ...read, bytes: stats.size }] : []
  })
  return files.sort((left, right) => left.begunAt - right.begunAt)
}

/**
 * Opens the log directory if it belongs to this owner. Returns undefined if the directory is missing or belongs to
 * another owner. The caller must close the directory.
 */
export function openLogDirectory(path: string, owner: string): LogDirectory | undefined {
  const descriptor = tryTo(() => openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | careful))
  if (descriptor === undefined) return undefined
  const base = `/proc/self/fd/${descriptor}`
  const at = (name: string) => {
    if (readName(name) === undefined) throw new Error(`${name} is not a file of Postgres's log`)
    return join(base, name)
  }
  const close = () => closeSync(descriptor)
  const files = tryTo(() => (ownerIn(base) === owner ? filesIn(base) : undefined))
  if (files === undefined) {
    close()
    return undefined
  }
  return {
    files,
    use: (name, work) => withFile(at(name), constants.O_RDONLY, work),
    async open(name) {
      const file = await open(at(name), constants.O_RDONLY | careful)
      if ((await file.stat()).isFile()) return file
      await file.close()
      throw new Error(`${name} is not a regular file`)
    },
    remove: name => unlinkSync(at(name)),
    empty: name => withFile(at(name), constants.O_WRONLY, descriptor => ftruncateSync(descriptor)),
    close,
  }
}
