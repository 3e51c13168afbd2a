/** The files of an open store: journals, snapshots, and their directory. */
import { statSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DirectoryMissing } from './errors.ts'
import type { JsonObject } from './json.ts'
import { type LogFile, logFile, type OpenFile, openFile as openRealFile } from './log-file.ts'
import { type Header, headerPayload } from './records.ts'
import { journalName, snapshotName, storeFiles } from './recovery.ts'
import { unfinishedSnapshot, writeSnapshot } from './snapshot.ts'

/** Returns device and inode of a path; undefined if it does not exist. */
function identityOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false })
  return found && `${found.dev}/${found.ino}`
}

export class StoreDirectory {
  readonly path: string
  readonly #openFile: OpenFile
  /** Stays open, so that the store can sync names without a free file descriptor. */
  readonly #handle: FileHandle
  readonly #identity: string | undefined

  private constructor(path: string, openFile: OpenFile, handle: FileHandle) {
    this.path = path
    this.#openFile = openFile
    this.#handle = handle
    this.#identity = identityOf(path)
  }

  static async open(path: string, openFile: OpenFile = openRealFile): Promise<StoreDirectory> {
    return new StoreDirectory(path, openFile, await open(path, 'r'))
  }

  close(): Promise<void> {
    return this.#handle.close()
  }

  /** Makes created, renamed and deleted names survive a crash. */
  readonly syncNames = (): Promise<void> => this.#handle.sync()

  /** @throws DirectoryMissing if the directory is missing or replaced, or does not contain the journal */
  requireUnmoved(journal: number): void {
    if (!this.isUnmoved(journal)) throw new DirectoryMissing(this.path)
  }

  isUnmoved(journal: number): boolean {
    return identityOf(this.path) === this.#identity && identityOf(this.#journalPath(journal)) !== undefined
  }

  async openJournal(number: number, length: number, size: number): Promise<LogFile> {
    return logFile(await this.#openFile(this.#journalPath(number), 'r+', 0o600), length, size)
  }

  async beginJournal(header: Header): Promise<LogFile> {
    const log = logFile(await this.#openFile(this.#journalPath(header.number), 'w', 0o600), 0)
    try {
      await log.append(headerPayload(header))
      await this.syncNames()
      return log
    } catch (error) {
      await log.close()
      throw error
    }
  }

  async removeJournal(number: number): Promise<void> {
    await rm(this.#journalPath(number), { force: true })
    await this.syncNames()
  }

  /** Returns the size of the snapshot in bytes. */
  writeSnapshot(header: Header, objects: JsonObject[]): Promise<number> {
    return writeSnapshot(this.path, header, objects, this.#openFile, this.syncNames)
  }

  removeUnfinishedSnapshot(): Promise<void> {
    return rm(join(this.path, unfinishedSnapshot), { force: true })
  }

  /** Deletes the journals and snapshots with a number below `first`. */
  async removeBefore(first: number): Promise<void> {
    const { journals, snapshots } = await storeFiles(this.path)
    for (const old of journals) if (old < first) await rm(this.#journalPath(old))
    for (const old of snapshots) if (old < first) await rm(join(this.path, snapshotName(old)))
  }

  #journalPath(number: number): string {
    return join(this.path, journalName(number))
  }
}
