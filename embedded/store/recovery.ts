/**
 * Reads a store's directory: the newest snapshot, then the journals after it. It drops a truncated write at the very
 * end, because that write was never acknowledged. It refuses any other inconsistency, because continuing would silently
 * lose writes. It distinguishes newer formats from damage. It changes nothing before it has read everything. The
 * files may be the only copy. So no message advises to delete a file, and only the message about a damaged last record
 * advises to truncate a file.
 */
import { open, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Logger } from 'pino'
import { StoreError } from './errors.ts'
import { decodeFrames, type Frames, firstPayload, writtenBytes } from './frames.ts'
import type { JsonObject } from './json.ts'
import { readManifest } from './manifest.ts'
import type { ObjectReference } from './objects.ts'
import {
  format,
  type Header,
  type LogRecord,
  readBatch,
  readEnd,
  readFormat,
  readHeader,
  Unknown,
  unknownRecords,
} from './records.ts'

export const journalName = (number: number): string => `journal-${String(number).padStart(8, '0')}`
export const snapshotName = (number: number): string => `snapshot-${String(number).padStart(8, '0')}`
const pattern = /^(journal|snapshot)-([0-9]{8})$/

/** Receives the objects that the store reads. */
export type Sink = {
  put(reference: ObjectReference, object: JsonObject): void
  remove(reference: ObjectReference): void
}
export type Recovered = {
  version: number
  snapshotBytes: number
  /** The journal that the manifest names; undefined without a manifest. */
  manifest: number | undefined
  /**
   * The journal to continue; length 0 if the journal does not exist yet. `size`: the file size, including zeros after
   * the content.
   */
  journal: { number: number; length: number; size: number; format: number }
}

/** The numbers of the journals and snapshots in a directory, ascending. */
export async function storeFiles(directory: string): Promise<{ journals: number[]; snapshots: number[] }> {
  const found = { journals: [] as number[], snapshots: [] as number[] }
  for (const name of await readdir(directory)) {
    const [, kind, number] = pattern.exec(name) ?? []
    if (kind === 'journal') found.journals.push(Number(number))
    if (kind === 'snapshot') found.snapshots.push(Number(number))
  }
  found.journals.sort((one, other) => one - other)
  found.snapshots.sort((one, other) => one - other)
  return found
}

/** @throws StoreError `corrupt`, `newer` */
export async function recover(directory: string, sink: Sink, logger: Logger): Promise<Recovered> {
  const { journals, snapshots } = await storeFiles(directory)
  // The formats are checked first: this release could mistake other files of a newer release for damaged files.
  for (const name of [...snapshots.map(snapshotName), ...journals.map(journalName)]) {
    const stated = await formatOf(join(directory, name))
    if (stated !== undefined && stated > format)
      throw tooNew(directory, `format ${stated}; this release reads up to ${format}`)
  }
  const due = await dueJournal(directory)
  if (due !== undefined && Math.max(0, ...journals) < due) throw missing(directory, due)
  const base = snapshots.at(-1) ?? 1
  const numbers = journals.filter(number => number >= base)
  if (numbers.length === 0) numbers.push(base)
  for (const [index, number] of numbers.entries()) {
    if (number !== base + index) throw corrupt(directory, journalName(base + index), 'is missing')
  }
  const snapshot = snapshots.length > 0 ? await readSnapshot(directory, base, sink) : { version: 1, bytes: 0 }
  let version = snapshot.version
  let last = { length: 0, size: 0, format }
  for (const number of numbers) {
    if (!journals.includes(number)) break
    const role = { isLast: number === numbers.at(-1), isDue: number === due }
    const read = await readJournal(directory, { number, version }, role, sink, logger)
    version = read.version
    last = { length: read.length, size: read.size, format: read.format }
  }
  for (const number of journals) if (number < base) await rm(join(directory, journalName(number)))
  for (const number of snapshots) if (number < base) await rm(join(directory, snapshotName(number)))
  return { version, manifest: due, snapshotBytes: snapshot.bytes, journal: { number: numbers.at(-1) ?? base, ...last } }
}

/** The journal that must exist, because the manifest names it. @throws StoreError `corrupt` */
async function dueJournal(directory: string): Promise<number | undefined> {
  try {
    return await readManifest(directory)
  } catch (error) {
    throw corrupt(directory, 'manifest', 'is damaged', error)
  }
}

/** The number of bytes to read for the format; no file's first frame is larger. */
const headerLimit = 64 * 1024

/** Reads only the format at the beginning of a file, because this release may be unable to read the rest. */
async function formatOf(path: string): Promise<number | undefined> {
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headerLimit), 0, headerLimit, 0)
    return readFormat(firstPayload(buffer.subarray(0, bytesRead)))
  } finally {
    await file.close()
  }
}

async function readSnapshot(directory: string, number: number, sink: Sink) {
  const name = snapshotName(number)
  const file = await readFile(join(directory, name))
  const { payloads, end, rest } = decodeFrames(file)
  if (rest !== 'nothing') throw corrupt(directory, name, `is damaged at byte ${end}`)
  const header = checkHeader(directory, name, payloads[0])
  let objects = 0
  for (const payload of payloads.slice(1, -1)) {
    for (const { reference, object } of batchOf(directory, name, payload)) {
      if (object === undefined) throw corrupt(directory, name, 'contains a deletion')
      sink.put(reference, object)
      objects++
    }
  }
  if (readEnd(payloads.at(-1)) !== objects) throw corrupt(directory, name, 'ends too early')
  return { version: header.version, bytes: file.length }
}

/** `isLast`: no journal follows. `isDue`: the manifest names this journal, so at least its header is on disk. */
type Role = { isLast: boolean; isDue: boolean }

async function readJournal(directory: string, expected: Header, role: Role, sink: Sink, logger: Logger) {
  const name = journalName(expected.number)
  const path = join(directory, name)
  const file = await readFile(path)
  const frames = decodeFrames(file)
  if (frames.rest === 'damaged at the end') {
    throw corrupt(
      directory,
      name,
      `is damaged at byte ${frames.end}: its last record was written completely, and was changed later. To start without this record, truncate the file at this byte (truncate -s ${frames.end})`,
    )
  }
  if (frames.rest === 'damaged' || (frames.rest === 'truncated' && !role.isLast)) {
    throw corrupt(directory, name, `is damaged at byte ${frames.end}, with undamaged records after it`)
  }
  if (role.isDue && frames.end === 0) throw corrupt(directory, name, 'has lost its content')
  const read = replay(directory, name, expected, frames, sink)
  const size = frames.rest === 'truncated' ? await dropTruncatedWrite(path, file, frames.end, logger) : frames.end
  return { ...read, length: frames.end, size }
}

/** At least this many zeros after a journal are reserved space, not a truncated write. */
const leastSpareBytes = 4096

/**
 * Drops a truncated write. Keeps zeros that reserve disk space for the journal.
 * @returns the new file size
 */
async function dropTruncatedWrite(path: string, file: Buffer, end: number, logger: Logger): Promise<number> {
  const bytes = writtenBytes(file.subarray(end))
  const hasSpare = end > 0 && file.length - end - bytes >= leastSpareBytes
  if (bytes > 0 || !hasSpare) {
    logger.warn(
      { file: basename(path), at: end, bytes: file.length - end },
      'dropped a truncated last write, which was never acknowledged',
    )
  }
  if (!hasSpare) {
    await truncate(path, end)
    return end
  }
  if (bytes > 0) await overwrite(path, end, Buffer.alloc(bytes))
  return file.length
}

async function overwrite(path: string, at: number, content: Buffer): Promise<void> {
  const file = await open(path, 'r+')
  try {
    await file.write(content, 0, content.length, at)
    await file.sync()
  } finally {
    await file.close()
  }
}

function replay(directory: string, name: string, expected: Header, { payloads }: Frames, sink: Sink) {
  if (payloads.length === 0) return { version: expected.version, format }
  const header = checkHeader(directory, name, payloads[0])
  if (header.number !== expected.number || header.version !== expected.version) {
    const what = `is journal ${header.number} at version ${header.version}; expected journal ${expected.number} at version ${expected.version}`
    throw corrupt(directory, name, what)
  }
  let version = expected.version
  for (const payload of payloads.slice(1)) {
    for (const { version: next, reference, object } of batchOf(directory, name, payload)) {
      if (next !== version + 1) throw corrupt(directory, name, `continues at version ${next} after version ${version}`)
      if (object === undefined) sink.remove(reference)
      else sink.put(reference, object)
      version = next
    }
  }
  return { version, format: header.format }
}

function checkHeader(directory: string, name: string, payload: Buffer | undefined) {
  try {
    return readHeader(payload)
  } catch (error) {
    throw corrupt(directory, name, 'has no valid header of a store file', error)
  }
}

function batchOf(directory: string, name: string, payload: Buffer): LogRecord[] {
  try {
    return readBatch(payload)
  } catch (error) {
    const what = error instanceof Unknown ? error.message : unknownRecords
    throw tooNew(directory, `${name} contains ${what} that this release does not know`)
  }
}

const tooNew = (directory: string, how: string): StoreError =>
  new StoreError(
    'newer',
    `${directory} was written by a newer release (${how}): start the newer release again; nothing is damaged; keep all files`,
  )

const missing = (directory: string, number: number): StoreError =>
  new StoreError(
    'corrupt',
    `${join(directory, journalName(number))} is missing. It contains the newest writes. Nothing was changed. Restore this file, or the whole directory, from a copy. Without a copy, \`espalier rescue\` creates the databases again from their volumes`,
  )

const corrupt = (directory: string, file: string, what: string, cause?: unknown): StoreError =>
  new StoreError(
    'corrupt',
    `${join(directory, file)} ${what}. Nothing was changed. Before you change anything, copy the whole directory. Then restore the directory from a copy that is older than the damage`,
    { cause },
  )
