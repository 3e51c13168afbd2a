/**
 * The store's directory: a journal that every commit is appended to, and from time to time a snapshot of everything, so
 * that the journal can begin anew. Once `append` returns, its records survive any crash; when it throws, none of
 * them will come back. The owner of the state appends one batch at a time and applies it afterwards.
 *
 * On a full disk it goes on in a reserve (reserve.ts).
 *
 * Journal n holds what happened after snapshot n. A snapshot is written beside the running journal of its number, and
 * replaces what came before only when it is whole and on disk. A directory that is deleted or replaced while it is open takes
 * nothing any more. Appending needs no file descriptor that is not open already.
 */
import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { DirectoryGone, StoreError } from './errors.ts'
import { encodeFrame } from './frames.ts'
import type { JsonObject } from './json.ts'
import { lockDirectory } from './lock.ts'
import { type LogFile, logFile, type OpenFile, openFile as openRealFile } from './log-file.ts'
import { createManifest } from './manifest.ts'
import { batchPayload, format, type Header, headerPayload } from './records.ts'
import { journalName, type Recovered, recover, type Sink, snapshotName, storeFiles } from './recovery.ts'
import { dropReserve, hasReserve, hasSpace, isFull, makeReserve, spendReserve } from './reserve.ts'
import { unfinishedSnapshot, writeSnapshot } from './snapshot.ts'

/** `reserve`: the disk is full, and the store writes into what was kept for that. `scarce`: half of that is used up. */
export type Pressure = 'none' | 'reserve' | 'scarce'

export type Disk = {
  /** @throws NodeJS.ErrnoException; then nothing of the batch is kept, and a later append may succeed. */
  append(records: readonly string[]): Promise<void>
  pressure(): Pressure
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
  /** What is kept on the disk for a time when it is full, in bytes; 0 is none. */
  reserveBytes?: number | undefined
}

/** How often the store checks whether the disk has space again, and whether the reserve is there. */
const reserveCheckMs = 1000

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
  const { directory, source, logger, compactAfterBytes = defaultCompactAfterBytes, reserveBytes = 0 } = options
  const openFile = options.openFile ?? openRealFile
  /** Open for as long as the store is, so that names can be made to last where no file can be opened any more. */
  const handle = await open(directory, 'r')
  const syncNames = (): Promise<void> => handle.sync()
  const manifest = createManifest(directory, recovered.manifest, syncNames)
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
      ? await openJournal(recovered.journal.length, recovered.journal.size)
      : await beginJournal({ number, version: recovered.version })
  /** What the running journal had of the reserve when it began; 0 where it is no reserve. */
  let granted = journal.spare
  /** One thing at a time changes which journal runs. */
  let turn: Promise<unknown> = Promise.resolve()
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = turn.then(work)
    turn = next.catch(() => undefined)
    return next
  }

  async function openJournal(length: number, size: number): Promise<LogFile> {
    return logFile(await openFile(join(directory, journalName(number)), 'r+', 0o600), length, size)
  }

  /** @throws DirectoryGone where another directory, or none, has the name, or the journal is not in it */
  function requirePlace(): void {
    if (!isInPlace()) throw new DirectoryGone(directory)
  }

  function isInPlace(): boolean {
    return identityOf(directory) === place && identityOf(join(directory, journalName(number))) !== undefined
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

  /** Goes on in the reserve. @throws where there is none, or where not even its blocks can be overwritten */
  async function useReserve(): Promise<void> {
    await compaction
    const header = { number: number + 1, version: source.version() }
    const size = await spendReserve(directory, journalName(header.number), headerPayload(header), syncNames)
    await journal.close().catch(() => undefined)
    number = header.number
    journal = await openJournal(encodeFrame(headerPayload(header)).length, size)
    granted = journal.spare
    logger.error({ bytes: granted }, 'the disk is full: the store goes on in its reserve, for deletions above all')
  }

  /** Leaves the reserve once the disk has space again. */
  async function tendReserve(): Promise<void> {
    if (granted === 0 || compacting || !journal.trusted) return
    if (!(await hasSpace(directory, reserveBytes + 3 * (snapshotBytes + journal.length)))) return
    // A journal that is followed by another one ends with its last record.
    await journal.trim()
    granted = 0
    await rotate()
    logger.warn('the disk has space again: the store has left its reserve')
  }

  /** The reserve is made beside the other work. */
  let making: Promise<void> = Promise.resolve()
  let isMaking = false
  function tend(): void {
    const failed = (error: unknown): void => logger.debug({ err: error }, 'the reserve of the store; will try again')
    if (granted > 0) void inTurn(tendReserve).catch(failed)
    else if (!isMaking && isInPlace()) {
      isMaking = true
      making = makeReserve(directory, reserveBytes, syncNames)
        .catch(failed)
        .finally(() => {
          isMaking = false
        })
    }
  }
  const tending = reserveBytes === 0 ? undefined : setInterval(tend, reserveCheckMs).unref()

  /** @throws what the last try met */
  async function appendSomewhere(payload: Buffer): Promise<void> {
    try {
      await manifest.state(number)
      await journal.append(payload)
    } catch (error) {
      if (!isFull(error) || granted > 0 || !journal.trusted || !(await hasReserve(directory))) throw error
      await useReserve().catch(async (failure: unknown) => {
        // A file system that never overwrites in place, such as btrfs: give its space back and use that.
        if (!isFull(failure)) throw failure
        await dropReserve(directory)
      })
      // On a full disk a manifest can be overwritten, and not be made.
      await manifest
        .state(number)
        .catch((failure: unknown) => logger.warn({ err: failure }, 'no manifest of the store'))
      await journal.append(payload)
    }
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
    granted = 0
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
    append: records =>
      inTurn(async () => {
        requirePlace()
        if (!journal.trusted) await repair()
        else if (journal.length > limit && !compacting && granted === 0) await makeRoom()
        await appendSomewhere(batchPayload(records))
        try {
          requirePlace()
        } catch (error) {
          journal.distrust()
          throw error
        }
      }),
    pressure() {
      if (granted === 0) return 'none'
      return journal.spare > granted / 2 ? 'reserve' : 'scarce'
    },
    async close() {
      clearInterval(tending)
      await making
      await turn
      await compaction
      await journal.close()
      await manifest.close()
      await handle.close()
      unlock()
    },
  }
}
