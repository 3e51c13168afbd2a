/**
 * Writes a base backup to the archive while Postgres sends it. Two parts are in memory: `writeBackup` compresses one
 * part while it writes the previous part.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { compressedPart } from '../../instance/archive/compression.ts'
import { PartSender, storedOf } from '../../instance/archive/parts.ts'
import type { Content as Part } from '../../instance/archive/transport.ts'
import type { BaseBackupEvent, WalPosition } from '../../instance/replication/base-backup.ts'
import { ArchiveError } from '../errors.ts'
import type { Incarnation } from '../names.ts'
import type { Content } from '../object/header.ts'
import { authenticated } from '../object/seal.ts'
import { type Archive, putOnce } from '../put.ts'
import { type BackupRecord, backupNames, partBytes } from './record.ts'

type BackupRun = {
  incarnation: Incarnation
  /** A UUIDv7: readers sort backups by id. */
  id: string
  now: () => number
  /** Called after each part, with the bytes received so far and Postgres's estimate of all bytes. */
  onProgress?: (bytes: number, estimate: number) => void
  signal?: AbortSignal
}

/** @throws ArchiveError; Error if Postgres ends the backup early, or if the server has tablespaces */
export async function writeBackup(
  archive: Archive,
  events: AsyncIterable<BaseBackupEvent>,
  run: BackupRun,
): Promise<BackupRecord> {
  const names = backupNames(run.incarnation, run.id)
  const startedAt = new Date(run.now()).toISOString()
  const parts = new PartSender(partBytes, compressedPart, (number, part) =>
    putPart(archive, names.part(number), part, run.signal),
  )
  try {
    const { start, end, manifest } = await sent(events, parts, run)
    const written = await parts.end()
    const record: BackupRecord = {
      version: 1,
      start,
      end,
      startedAt,
      endedAt: new Date(run.now()).toISOString(),
      parts: written,
      manifest: await putBytes(archive, names.manifest, manifest, run.signal),
      bytes: parts.bytes,
    }
    await readBack(archive, names.manifest, record.manifest, run.signal)
    await putBytes(archive, names.record, Buffer.from(JSON.stringify(record)), run.signal)
    return record
  } finally {
    await parts.settle()
  }
}

type Sent = { start: WalPosition; end: WalPosition; manifest: Buffer }

async function sent(events: AsyncIterable<BaseBackupEvent>, parts: PartSender, run: BackupRun): Promise<Sent> {
  const manifest: Buffer[] = []
  let [start, end]: (WalPosition | undefined)[] = []
  let estimate = 0
  let isManifest = false
  for await (const event of events) {
    run.signal?.throwIfAborted()
    if (event.kind === 'started') [start, estimate] = [event.at, event.bytes]
    else if (event.kind === 'ended') end = event.at
    else if (event.kind === 'manifest') isManifest = true
    else if (event.kind === 'archive') refuseTablespace(event.tablespace)
    else if (event.kind === 'data' && isManifest) manifest.push(Buffer.from(event.bytes))
    else if (event.kind === 'data' && (await parts.add(event.bytes))) run.onProgress?.(parts.bytes, estimate)
  }
  if (start === undefined || end === undefined) throw new Error('Postgres ended the backup early')
  return { start, end, manifest: Buffer.concat(manifest) }
}

function refuseTablespace(tablespace: string | undefined): void {
  if (tablespace !== undefined)
    throw new Error(
      `the server has a tablespace at ${tablespace}: backups of servers with tablespaces are not supported`,
    )
}

async function putBytes(archive: Archive, name: string, bytes: Buffer, signal?: AbortSignal): Promise<Content> {
  const content = { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length }
  await putOnce(archive, { name, content, source: Readable.from([bytes]), isVerified: true }, signal)
  return content
}

/** Writes the part, and reads it back. */
async function putPart(archive: Archive, name: string, part: Part, signal?: AbortSignal): Promise<void> {
  const content = storedOf(part)
  const source = Readable.from(part.chunks())
  await putOnce(archive, { name, content, source, isVerified: true, isCompressed: true }, signal)
  await readBack(archive, name, content, signal)
}

/** @throws ArchiveError `damaged` if the object is missing, incomplete or has other content; `store`, `unknown key` */
async function readBack(
  { store, keys }: Archive,
  name: string,
  { sha256 }: Content,
  signal?: AbortSignal,
): Promise<void> {
  const stored = await store.read(name, undefined, signal)
  if (stored === undefined)
    throw new ArchiveError({ kind: 'damaged', name, detail: 'the store has no object with this name after the write' })
  const { content } = await authenticated(stored, { name, keys })
  if (content?.sha256 !== sha256)
    throw new ArchiveError({
      kind: 'damaged',
      name,
      detail: 'the store returns content that differs from the written content',
    })
}
