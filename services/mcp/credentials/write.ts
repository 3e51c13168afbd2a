/**
 * Changes credential files. Two concurrent changes, by any processes, are both applied. Readers see the old or the new
 * file, never a part of it. Only the file's owner can read it.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, constants, existsSync, fchownSync, fsyncSync, openSync } from 'node:fs'
import { open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { type Entries, type Form, parseEntries, withEntries } from './document.ts'
import { CredentialError } from './errors.ts'

const longestWaitMs = 10_000
const retryMs = 10
const privateMode = 0o600

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error'

/** Returns undefined if the file does not exist. @throws CredentialError */
export async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new CredentialError(`${path} cannot be read (${codeOf(error)})`)
  }
}

/** Whether users other than the file's owner can read or write it. */
export async function isLax(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && (found.mode & 0o077) !== 0
}

/**
 * Serializes writers by an SQLite lock on a file beside the credential file. The kernel releases the lock when the
 * process ends for any reason.
 */
async function locked<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  const lockPath = join(dirname(path), `.${basename(path)}.lock`)
  let lock: DatabaseSync
  try {
    await makeLockFile(path, lockPath)
    lock = new DatabaseSync(lockPath, { timeout: 0 })
  } catch (error) {
    if (!existsSync(dirname(path)))
      throw new CredentialError(`${path} cannot be written: there is no folder ${dirname(path)}`)
    throw new CredentialError(`${path} cannot be written: its lock ${lockPath} cannot be opened (${codeOf(error)})`)
  }
  try {
    const began = performance.now()
    while (!take(lock)) {
      if (performance.now() - began > longestWaitMs)
        throw new CredentialError(`${path} is being written by another process`)
      await pause(retryMs)
    }
    return await work()
  } finally {
    lock.close()
  }
}

async function makeLockFile(path: string, lockPath: string): Promise<void> {
  const descriptor = openSync(lockPath, constants.O_CREAT | constants.O_RDWR, privateMode)
  try {
    keepOwner(descriptor, await ownerOf(path))
  } finally {
    closeSync(descriptor)
  }
}

function take(lock: DatabaseSync): boolean {
  try {
    lock.exec('BEGIN IMMEDIATE')
    return true
  } catch {
    return false
  }
}

/** Replaces the file atomically: after a power failure, it is the old or the new file. */
async function replace(path: string, text: string): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}`)
  try {
    const owner = await ownerOf(path)
    const file = await open(temporary, 'wx', privateMode)
    try {
      await file.writeFile(text)
      keepOwner(file.fd, owner)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
    syncDirectory(dirname(path))
  } catch (error) {
    await rm(temporary, { force: true })
    throw new CredentialError(`${path} cannot be written (${codeOf(error)})`)
  }
}

type Owner = { readonly uid: number; readonly gid: number }

/** The owner of the file, or of its directory if the file does not exist yet. */
const ownerOf = async (path: string): Promise<Owner> => (await stat(path).catch(() => undefined)) ?? stat(dirname(path))

/** Root may write a file for the server's account. That account could not read a file owned by root. */
function keepOwner(descriptor: number, { uid, gid }: Owner): void {
  if (process.getuid?.() === 0) fchownSync(descriptor, uid, gid)
}

function syncDirectory(path: string): void {
  const directory = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

/**
 * Reads the file, applies the change and writes the file, under the lock. If the change returns its input, nothing is
 * written. A missing file has no entries.
 * @throws CredentialError if the file is invalid or cannot be written; errors of the change
 */
export async function changeEntries<Entry>(
  form: Form<Entry>,
  path: string,
  change: (before: Entries<Entry>) => Entries<Entry>,
): Promise<void> {
  // Replaces a link's target, not the link itself.
  const target = await realpath(path).catch(() => path)
  await locked(target, async () => {
    const text = await readText(target)
    try {
      const before = text === undefined ? new Map<string, Entry>() : parseEntries(form, text)
      const after = change(before)
      if (after !== before) await replace(target, withEntries(form, text, after))
    } catch (error) {
      if (error instanceof CredentialError && !error.message.includes(path)) {
        throw new CredentialError(`${path} ${error.message}`)
      }
      throw error
    }
  })
}
