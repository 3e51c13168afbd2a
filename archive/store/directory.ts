/**
 * Stores objects as files below a directory. A writer writes and flushes a temporary file, and links this file to the
 * object's name. `link` fails if the name exists, so only one writer succeeds. Directories are flushed too, so that an
 * object survives a power failure.
 */
import { randomBytes } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { type FileHandle, link, mkdir, open, opendir, readdir, rm, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ArchiveError } from '../errors.ts'
import { isObjectName, type ObjectStore, type StoredObject } from './store.ts'

/** The prefix of temporary files. No object name begins with a dot, so a temporary file is never an object. */
const partialPrefix = '.partial-'
const readBytes = 256 * 1024

const locationOf = (root: string): string => `file://${root}`

/** @param root an absolute path. If the directory does not exist, it is created with the mode 0700. */
export async function openDirectoryStore(root: string): Promise<ObjectStore> {
  const location = locationOf(root)
  await attempt(location, () => mkdir(root, { recursive: true, mode: 0o700 }))
  const pathOf = (name: string): string => {
    if (!isObjectName(name)) throw new RangeError(`${JSON.stringify(name)} is not a valid object name`)
    return join(root, ...name.split('/'))
  }
  return {
    location,
    isConditional: true,
    create: (name, bytes, signal) => attempt(name, () => createFile(root, pathOf(name), bytes, signal)),
    read: (name, range, signal) =>
      attempt(name, async () => {
        const file = await ifPresent(() => open(pathOf(name), 'r'))
        return file && contentOf(name, file, range ?? { first: 0, length: Number.POSITIVE_INFINITY }, signal)
      }),
    stat: name => attempt(name, () => statOf(name, pathOf(name))),
    list: (prefix, after) => listed(root, prefix, after),
    delete: name => attempt(name, () => rm(pathOf(name), { force: true })),
    deleteAbandonedUploads: (prefix, before) => attempt(prefix || location, () => deletePartials(root, prefix, before)),
    close: () => {},
  }
}

/** After these errors a retry may succeed. For all other system errors, an administrator must fix the cause. */
const temporaryCodes = ['ENOSPC', 'EDQUOT', 'EIO', 'EMFILE', 'ENFILE', 'EBUSY', 'ESTALE', 'ETIMEDOUT']

async function attempt<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw isSystemError(error) ? storeError(name, error) : error
  }
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'code' in error && 'syscall' in error

function storeError(name: string, error: NodeJS.ErrnoException): ArchiveError {
  const code = error.code ?? 'unknown'
  const fault = {
    kind: 'store' as const,
    name,
    code,
    detail: error.syscall ?? '',
    isTemporary: temporaryCodes.includes(code),
  }
  return new ArchiveError(fault, { cause: error })
}

async function ifPresent<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await work()
  } catch (error) {
    if (isSystemError(error) && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined
    throw error
  }
}

async function createFile(
  root: string,
  path: string,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<'created' | 'exists'> {
  await createDirectories(root, dirname(path))
  const partial = join(dirname(path), `${partialPrefix}${randomBytes(12).toString('hex')}`)
  const file = await open(partial, 'wx', 0o600)
  try {
    try {
      for await (const chunk of bytes) {
        signal?.throwIfAborted()
        await writeAll(file, chunk)
      }
      signal?.throwIfAborted()
      await file.sync()
    } finally {
      await file.close()
    }
    return await linkTo(partial, path)
  } finally {
    await rm(partial, { force: true })
  }
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten
}

async function linkTo(partial: string, path: string): Promise<'created' | 'exists'> {
  try {
    await link(partial, path)
  } catch (error) {
    if (isSystemError(error) && error.code === 'EEXIST') return 'exists'
    throw error
  }
  await syncDirectory(dirname(path))
  return 'created'
}

/** Flushes the parent of each new directory, so that the directory survives a power failure. */
async function createDirectories(root: string, path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let at = path; at.length >= first.length && at.length > root.length; at = dirname(at))
    await syncDirectory(dirname(at))
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

async function* contentOf(
  name: string,
  file: FileHandle,
  { first, length }: { first: number; length: number },
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  try {
    let [position, left] = [first, length]
    while (left > 0) {
      signal?.throwIfAborted()
      const buffer = Buffer.allocUnsafe(Math.min(readBytes, left))
      const { bytesRead } = await attempt(name, () => file.read(buffer, 0, buffer.length, position))
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
      position += bytesRead
      left -= bytesRead
    }
  } finally {
    await file.close()
  }
}

async function statOf(name: string, path: string): Promise<StoredObject | undefined> {
  const found = await ifPresent(() => stat(path))
  return found?.isFile() ? { name, size: found.size, modifiedAt: found.mtime } : undefined
}

/** The directory that contains all names with the prefix, as a path below the root. */
const directoryOf = (prefix: string): string => prefix.slice(0, prefix.lastIndexOf('/') + 1)

async function* listed(root: string, prefix: string, after = ''): AsyncGenerator<StoredObject> {
  for await (const name of namesBelow(root, directoryOf(prefix), { prefix, after })) {
    const found = await attempt(name, () => statOf(name, join(root, name)))
    // Undefined if the object was deleted after the directory was read.
    if (found !== undefined) yield found
  }
}

/** The sort key of a directory is its name followed by `/`, as in S3. */
const sortKey = (entry: Dirent): string => (entry.isDirectory() ? `${entry.name}/` : entry.name)
const byBytes = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

async function* namesBelow(
  root: string,
  below: string,
  wanted: { prefix: string; after: string },
): AsyncGenerator<string> {
  const { prefix, after } = wanted
  const entries = await attempt(below || locationOf(root), () =>
    ifPresent(() => readdir(join(root, below), { withFileTypes: true })),
  )
  const sorted = (entries ?? []).sort((one, other) => byBytes(sortKey(one), sortKey(other)))
  for (const entry of sorted) {
    // Skips partial files, and directories such as lost+found, which only root can read.
    if (!isObjectName(entry.name)) continue
    const name = `${below}${sortKey(entry)}`
    if (!name.startsWith(prefix.slice(0, name.length))) continue
    if (entry.isDirectory()) {
      if (name > after || after.startsWith(name)) yield* namesBelow(root, name, wanted)
    } else if (name.startsWith(prefix) && name > after) yield name
  }
}

/** Reads directories entry by entry: a large store's names may need too much memory. */
async function deletePartials(root: string, prefix: string, before: Date): Promise<number> {
  let count = 0
  for (const below = [join(root, directoryOf(prefix))]; below.length > 0; ) {
    const path = below.pop() ?? root
    const directory = await ifPresent(() => opendir(path))
    for await (const entry of directory ?? []) {
      const found = join(path, entry.name)
      if (entry.isDirectory() && isObjectName(entry.name)) below.push(found)
      else if (entry.name.startsWith(partialPrefix) && (await isOlder(found, before))) {
        await ifPresent(() => unlink(found))
        count++
      }
    }
  }
  return count
}

async function isOlder(path: string, before: Date): Promise<boolean> {
  const found = await ifPresent(() => stat(path))
  return found?.isFile() === true && found.mtime < before
}
