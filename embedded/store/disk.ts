/**
 * The store's disk: a journal and snapshots. Every commit is appended to the journal. From time to time the store
 * starts a new journal and writes a snapshot of all objects. Once `append` returns, its records survive any crash. If
 * `append` throws, no reader will ever read its records. The committer appends one batch at a time, then applies it.
 *
 * On a full disk, the store writes into a reserve (reserve.ts).
 *
 * Journal n contains the commits after snapshot n. The store writes snapshot n while journal n is in use. The store
 * deletes earlier files only when the snapshot is complete and on disk. If the directory is deleted or replaced while
 * the store is open, `append` fails. The store keeps its files open, so it can append without free file descriptors.
 */
import { chmodSync, mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { StoreDirectory } from './directory.ts'
import { StoreError } from './errors.ts'
import { encodeFrame } from './frames.ts'
import type { JsonObject } from './json.ts'
import { lockDirectory } from './lock.ts'
import type { LogFile, OpenFile } from './log-file.ts'
import { createManifest } from './manifest.ts'
import { batchPayload, format, type Header, headerPayload } from './records.ts'
import { journalName, type Recovered, recover, type Sink } from './recovery.ts'
import { dropReserve, hasReserve, hasSpace, isFull, makeReserve, spendReserve } from './reserve.ts'
import { unfinishedSnapshot } from './snapshot.ts'

/**
 * `reserve`: the disk is full, and the store writes into its reserve. `scarce`: the store has also used at least half
 * of the bytes that were free when it opened the reserve.
 */
export type Pressure = 'none' | 'reserve' | 'scarce'

export type Disk = {
  /** @throws NodeJS.ErrnoException if the disk stored no part of the batch; a later append may succeed */
  append(records: readonly string[]): Promise<void>
  pressure(): Pressure
  close(): Promise<void>
}

type DiskOptions = {
  directory: string
  sink: Sink
  /** The committed state, as written to snapshots. */
  source: { version(): number; objects(): JsonObject[] }
  logger: Logger
  /** The journal is compacted once it is larger than this limit and than the last snapshot. */
  compactAfterBytes?: number | undefined
  openFile?: OpenFile | undefined
  /** The size of the reserve for a full disk, in bytes; 0 means no reserve. */
  reserveBytes?: number | undefined
}

/** How often the store checks whether the disk has space again and whether the reserve exists. */
const reserveCheckMs = 1000

const defaultCompactAfterBytes = 16 * 1024 * 1024

/** @throws StoreError `locked`, `corrupt`, `newer`, `inaccessible` */
export async function openDisk(options: DiskOptions): Promise<{ disk: Disk; version: number }> {
  const { directory } = options
  const unlock = prepareDirectory(directory)
  try {
    const recovered = await recover(directory, options.sink, options.logger)
    await rm(join(directory, unfinishedSnapshot), { force: true })
    return { disk: await JournaledDisk.open(options, recovered, unlock), version: recovered.version }
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

const inaccessible = (directory: string, error: unknown): StoreError =>
  new StoreError('inaccessible', `${directory} cannot be used: ${error instanceof Error ? error.message : error}`, {
    cause: error,
  })

class JournaledDisk implements Disk {
  readonly #directory: StoreDirectory
  readonly #source: DiskOptions['source']
  readonly #logger: Logger
  readonly #compactAfterBytes: number
  readonly #reserveBytes: number
  readonly #manifest: ReturnType<typeof createManifest>
  readonly #unlock: () => void
  readonly #checks: NodeJS.Timeout | undefined
  #journal: LogFile
  /** The number of the current journal. */
  #number: number
  #snapshotBytes: number
  /** The journal length that starts a compaction. */
  #limit: number
  /** The spare bytes of the current journal when it was opened, if it is in the reserve; otherwise 0. */
  #granted: number
  /** The last task that may replace the current journal. Such tasks run one after another. */
  #last: Promise<unknown> = Promise.resolve()
  #compaction: Promise<void> = Promise.resolve()
  #isCompacting = false
  #making: Promise<void> = Promise.resolve()
  #isMaking = false

  private constructor(
    options: DiskOptions,
    recovered: Recovered,
    { directory, journal, unlock }: { directory: StoreDirectory; journal: LogFile; unlock: () => void },
  ) {
    this.#directory = directory
    this.#source = options.source
    this.#logger = options.logger
    this.#compactAfterBytes = options.compactAfterBytes ?? defaultCompactAfterBytes
    this.#reserveBytes = options.reserveBytes ?? 0
    this.#manifest = createManifest(directory.path, recovered.manifest, directory.syncNames)
    this.#unlock = unlock
    this.#journal = journal
    this.#number = recovered.journal.number
    this.#snapshotBytes = recovered.snapshotBytes
    // A journal of an earlier format gets no more records. The earlier release may read this journal again, and it
    // cannot read newer records.
    this.#limit = recovered.journal.format < format ? 0 : this.#nextLimit()
    this.#granted = journal.spare
    if (this.#reserveBytes > 0) this.#checks = setInterval(() => this.#checkReserve(), reserveCheckMs).unref()
  }

  static async open(options: DiskOptions, recovered: Recovered, unlock: () => void): Promise<JournaledDisk> {
    const directory = await StoreDirectory.open(options.directory, options.openFile)
    const { number, length, size } = recovered.journal
    const journal =
      length > 0
        ? await directory.openJournal(number, length, size)
        : await directory.beginJournal({ number, version: recovered.version })
    return new JournaledDisk(options, recovered, { directory, journal, unlock })
  }

  append(records: readonly string[]): Promise<void> {
    return this.#serialized(async () => {
      this.#directory.requireUnmoved(this.#number)
      if (!this.#journal.trusted) await this.#repair()
      else if (this.#journal.length > this.#limit && !this.#isCompacting && this.#granted === 0) await this.#compact()
      await this.#appendSomewhere(batchPayload(records))
      try {
        this.#directory.requireUnmoved(this.#number)
      } catch (error) {
        this.#journal.distrust()
        throw error
      }
    })
  }

  pressure(): Pressure {
    if (this.#granted === 0) return 'none'
    return this.#journal.spare > this.#granted / 2 ? 'reserve' : 'scarce'
  }

  async close(): Promise<void> {
    clearInterval(this.#checks)
    await this.#making
    await this.#last
    await this.#compaction
    await this.#journal.close()
    await this.#manifest.close()
    await this.#directory.close()
    this.#unlock()
  }

  #serialized<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work)
    this.#last = next.catch(() => undefined)
    return next
  }

  #nextLimit(): number {
    return Math.max(this.#compactAfterBytes, this.#snapshotBytes)
  }

  #nextHeader(): Header {
    return { number: this.#number + 1, version: this.#source.version() }
  }

  async #switchTo(journal: LogFile, number: number): Promise<void> {
    await this.#journal.close().catch(() => undefined)
    this.#journal = journal
    this.#number = number
  }

  /** Starts a new journal if possible, and compacts the earlier journals in the background. */
  async #compact(): Promise<void> {
    try {
      await this.#rotate()
    } catch (error) {
      // The store continues with the current journal, so no newer journal may exist.
      await this.#directory.removeJournal(this.#number + 1)
      this.#limit = this.#journal.length + this.#compactAfterBytes
      this.#logger.warn({ err: error }, 'cannot start a new journal; continuing with the current one')
    }
  }

  /** Starts a new journal. In the background, writes the snapshot with the same number. */
  async #rotate(): Promise<void> {
    const header = this.#nextHeader()
    await this.#switchTo(await this.#directory.beginJournal(header), header.number)
    const objects = this.#source.objects()
    this.#isCompacting = true
    this.#compaction = this.#writeSnapshot(header, objects).finally(() => {
      this.#isCompacting = false
    })
  }

  async #writeSnapshot(header: Header, objects: JsonObject[]): Promise<void> {
    try {
      this.#snapshotBytes = await this.#directory.writeSnapshot(header, objects)
      await this.#directory.removeBefore(header.number)
    } catch (error) {
      // All journals still exist, so no record is lost. The next snapshot replaces them.
      this.#logger.warn({ err: error }, 'cannot write a snapshot; keeping all journals; will retry')
      // On a full disk, an unfinished snapshot must not use space.
      await this.#directory.removeUnfinishedSnapshot().catch(() => undefined)
    }
    this.#limit = this.#nextLimit()
  }

  /** Replaces a journal whose content on disk is unknown. First writes the committed state into a snapshot. */
  async #repair(): Promise<void> {
    await this.#compaction
    const header = this.#nextHeader()
    this.#snapshotBytes = await this.#directory.writeSnapshot(header, this.#source.objects())
    await this.#switchTo(await this.#directory.beginJournal(header), header.number)
    this.#granted = 0
    await this.#directory.removeBefore(header.number)
    this.#logger.info({ journal: journalName(header.number) }, 'started a new journal after a failed write')
  }

  /** Appends to the journal; on a full disk, to the reserve. @throws the error of the last attempt */
  async #appendSomewhere(payload: Buffer): Promise<void> {
    try {
      await this.#manifest.state(this.#number)
      await this.#journal.append(payload)
    } catch (error) {
      if (!isFull(error) || this.#granted > 0 || !this.#journal.trusted) throw error
      if (!(await hasReserve(this.#directory.path))) throw error
      await this.#enterReserve().catch(async (failure: unknown) => {
        // A file system such as btrfs never overwrites in place. There, delete the reserve and use its space.
        if (!isFull(failure)) throw failure
        await dropReserve(this.#directory.path)
      })
      // On a full disk the store can overwrite a manifest but not create one.
      await this.#manifest
        .state(this.#number)
        .catch((failure: unknown) =>
          this.#logger.warn({ err: failure }, "cannot write the store's manifest; continuing without the update"),
        )
      await this.#journal.append(payload)
    }
  }

  /** Starts a journal in the reserve. @throws if there is no reserve, or if its blocks cannot be overwritten */
  async #enterReserve(): Promise<void> {
    await this.#compaction
    const header = this.#nextHeader()
    const payload = headerPayload(header)
    const { path, syncNames } = this.#directory
    const size = await spendReserve(path, journalName(header.number), payload, syncNames)
    await this.#journal.close().catch(() => undefined)
    this.#number = header.number
    this.#journal = await this.#directory.openJournal(header.number, encodeFrame(payload).length, size)
    this.#granted = this.#journal.spare
    this.#logger.error(
      { bytes: this.#granted },
      'the disk is full: the store continues in its reserve, mainly for deletions',
    )
  }

  /** Leaves the reserve once the disk has space again. */
  async #leaveReserve(): Promise<void> {
    if (this.#granted === 0 || this.#isCompacting || !this.#journal.trusted) return
    const needed = this.#reserveBytes + 3 * (this.#snapshotBytes + this.#journal.length)
    if (!(await hasSpace(this.#directory.path, needed))) return
    // Only the newest journal may have zeros after its last record.
    await this.#journal.trim()
    this.#granted = 0
    await this.#rotate()
    this.#logger.warn('the disk has space again: the store has left its reserve')
  }

  /** Leaves the reserve if possible, or creates it in the background if it is missing. */
  #checkReserve(): void {
    const failed = (error: unknown): void =>
      this.#logger.debug({ err: error }, "cannot create or leave the store's reserve; will retry")
    if (this.#granted > 0) void this.#serialized(() => this.#leaveReserve()).catch(failed)
    else if (!this.#isMaking && this.#directory.isUnmoved(this.#number)) {
      this.#isMaking = true
      this.#making = makeReserve(this.#directory.path, this.#reserveBytes, this.#directory.syncNames)
        .catch(failed)
        .finally(() => {
          this.#isMaking = false
        })
    }
  }
}
