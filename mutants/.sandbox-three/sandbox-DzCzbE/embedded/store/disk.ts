/**
 * The store's directory: a journal that every commit is appended to, and from time to time a snapshot of everything, so
 * that the journal can begin anew. Once `append` returns, its records survive any crash; when it throws, none of
 * them will come back. The owner of the state appends one batch at a time and applies it afterwards.
 *
 * Journal n holds what happened after snapshot n. A snapshot is written beside the running journal of its number, and
 * replaces what came before only when it is whole and on disk. A directory that is deleted or replaced while it is open takes
 * nothing any more. Appending needs no file descriptor that is not open already.
 */
// @ts-nocheck

import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { DirectoryGone, StoreError } from './errors.ts'
import type { JsonObject } from './json.ts'
import { lockDirectory } from './lock.ts'
import { type LogFile, logFile, type OpenFile, openFile as openRealFile } from './log-file.ts'
import { batchPayload, format, type Header, headerPayload } from './records.ts'
import { journalName, type Recovered, recover, type Sink, snapshotName, storeFiles } from './recovery.ts'
import { unfinishedSnapshot, writeSnapshot } from './snapshot.ts'

export type Disk = {
  /** @throws NodeJS.ErrnoException; then nothing of the batch is kept, and a later append may succeed. */
  append(records: readonly string[]): Promise<void>
  close(): Promise<void>
}

type DiskOptions = {
  directory: string
  sink: Sink
  /** The committed state: what a snapshot is made of. */
  source: { version(): number; objects(): JsonObject[] }
  logger: Logger
  /** The journal is compacted beyond this many bytes, and beyond the size of the last snapshot. */
  compactAfterBytes?: number | undefined
  openFile?: OpenFile | undefined
}

const defaultCompactAfterBytes = 16 * 1024 * 1024

/** @throws StoreError `locked`, `corrupt`, `newer`, `inaccessible` */
export async function openDisk(options: DiskOptions): Promise<{ disk: Disk; version: number }> {
  const { directory } = options
  const unlock = prepareDirectory(directory)
  try {
    const recovered = await recover(directory, options.sink, options.logger)
    await rm(join(directory, unfinishedSnapshot), { force: true })
    return { disk: await createDisk(options, recovered, unlock), version: recovered.version }
  } catch (error) {
    unlock()
    throw error instanceof StoreError ? error : inaccessible(directory, error)
  }
}

function prepareDirectory(directory: string): () => void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    chmodSync(directory, 0o700)
    return lockDirectory(directory)
  } catch (error) {
    throw error instanceof StoreError ? error : inaccessible(directory, error)
  }
}

/** What tells a file from every other one; undefined where there is none. */
function identityOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false })
  return found && `${found.dev}/${found.ino}`
}

const inaccessible = (directory: string, error: unknown): StoreError =>
  new StoreError('inaccessible', `${directory} cannot be used: ${error instanceof Error ? error.message : error}`, {
    cause: error,
  })

async function createDisk(options: DiskOptions, recovered: Recovered, unlock: () => void): Promise<Disk> {
  const { directory, source, logger, compactAfterBytes = defaultCompactAfterBytes } = options
  const openFile = options.openFile ?? openRealFile
  /** Open for as long as the store is, so that names can be made to last where no file can be opened any more. */
  const handle = await open(directory, 'r')
  const syncNames = (): Promise<void> => handle.sync()
  const place = identityOf(directory)
  let number = recovered.journal.number
  let snapshotBytes = recovered.snapshotBytes
  let compaction: Promise<void> = Promise.resolve()
  let compacting = false
  /**
   * The length of the journal at which to compact. One of a former format takes no further record: a release that reads
   * no more than that one must not come upon what it does not know.
   */
  let limit = recovered.journal.format < format ? 0 : Math.max(compactAfterBytes, snapshotBytes)
  let journal =
    recovered.journal.length > 0
      ? logFile(await openFile(join(directory, journalName(number)), 'r+', 0o600), recovered.journal.length)
      : await beginJournal({ number, version: recovered.version })

  /** @throws DirectoryGone where another directory, or none, has the name, or the journal is not in it */
  function requirePlace(): void {
    const isThere = identityOf(directory) === place && identityOf(join(directory, journalName(number))) !== undefined
    if (!isThere) throw new DirectoryGone(directory)
  }

  async function beginJournal(header: Header): Promise<LogFile> {
    const log = logFile(await openFile(join(directory, journalName(header.number)), 'w', 0o600), 0)
    try {
      await log.append(headerPayload(header))
      await syncNames()
      return log
    } catch (error) {
      await log.close()
      throw error
    }
  }

  /** Goes on in a new journal, and writes the snapshot it follows in the background. */
  async function rotate(): Promise<void> {
    const header = { number: number + 1, version: source.version() }
    const next = await beginJournal(header)
    await journal.close().catch(() => undefined)
    journal = next
    number = header.number
    const objects = source.objects()
    compacting = true
    compaction = compact(header, objects).finally(() => {
      compacting = false
    })
  }

  async function compact(header: Header, objects: JsonObject[]): Promise<void> {
    try {
      snapshotBytes = await writeSnapshot(directory, header, objects, openFile, syncNames)
      await removeBefore(header.number)
    } catch (error) {
      // The journals are all there still, so nothing is lost; the next compaction covers this one.
      logger.warn({ err: error }, 'the store could not be compacted; will try again')
      // A part of a snapshot must not keep a full disk full.
      await rm(join(directory, unfinishedSnapshot), { force: true }).catch(() => undefined)
    }
    limit = Math.max(compactAfterBytes, snapshotBytes)
  }

  /** Leaves a journal that cannot be trusted any more: what is committed goes into a snapshot of its own first. */
  async function repair(): Promise<void> {
    await compaction
    const header = { number: number + 1, version: source.version() }
    snapshotBytes = await writeSnapshot(directory, header, source.objects(), openFile, syncNames)
    const next = await beginJournal(header)
    await journal.close().catch(() => undefined)
    journal = next
    number = header.number
    await removeBefore(number)
    logger.info({ journal: journalName(number) }, 'the store writes again, into a new journal')
  }

  async function removeBefore(first: number): Promise<void> {
    const { journals, snapshots } = await storeFiles(directory)
    for (const old of journals) if (old < first) await rm(join(directory, journalName(old)))
    for (const old of snapshots) if (old < first) await rm(join(directory, snapshotName(old)))
  }

  async function makeRoom(): Promise<void> {
    try {
      await rotate()
    } catch (error) {
      // The old journal must be the last one again before anything more is written to it.
      await rm(join(directory, journalName(number + 1)), { force: true })
      await syncNames()
      limit = journal.length + compactAfterBytes
      logger.warn({ err: error }, 'cannot start a new journal; going on with the old one')
    }
  }

  return {
    async append(records) {
      requirePlace()
      if (!journal.trusted) await repair()
      else if (journal.length > limit && !compacting) await makeRoom()
      await journal.append(batchPayload(records))
      try {
        requirePlace()
      } catch (error) {
        journal.distrust()
        throw error
      }
    },
    async close() {
      await compaction
      await journal.close()
      await handle.close()
      unlock()
    },
  }
}
