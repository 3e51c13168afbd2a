/** Writes a base backup to the archive while Postgres sends it. Two parts are held in memory: one is sent while the next arrives. */
import { createHash } from 'node:crypto'
import type { BaseBackupEvent, WalPosition } from '../../instance/replication/base-backup.ts'
import { ArchiveError } from '../errors.ts'
import type { Incarnation } from '../names.ts'
import type { Content } from '../object/header.ts'
import { authenticated } from '../object/seal.ts'
import { type Archive, putOnce } from '../put.ts'
import { type BackupRecord, backupNames, partBytes } from './record.ts'

type BackupRun = {
  incarnation: Incarnation
  /** A UUID that no other backup has. */
  id: string
  now: () => number
  /** Called after each part, with all bytes so far and Postgres's estimate. */
  onProgress?: (bytes: number, estimate: number) => void
  signal?: AbortSignal
}

/** @throws ArchiveError; Error if the backup ends early or has tablespaces of its own */
export async function writeBackup(
  archive: Archive,
  events: AsyncIterable<BaseBackupEvent>,
  run: BackupRun,
): Promise<BackupRecord> {
  const names = backupNames(run.incarnation, run.id)
  const startedAt = new Date(run.now()).toISOString()
  const parts = new Parts(content => putBytes(archive, names.part(parts.count), content, run.signal))
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
    else if (event.kind === 'data' && isManifest) manifest.push(event.bytes)
    else if (event.kind === 'data' && (await parts.add(event.bytes))) run.onProgress?.(parts.bytes, estimate)
  }
  const written = await parts.end()
  if (start === undefined || end === undefined) throw new Error('Postgres ended the backup early')
  const record: BackupRecord = {
    version: 1,
    start,
    end,
    startedAt,
    endedAt: new Date(run.now()).toISOString(),
    parts: written,
    manifest: await putBytes(archive, names.manifest, Buffer.concat(manifest), run.signal),
    bytes: parts.bytes,
  }
  for (const [index, part] of record.parts.entries()) await readBack(archive, names.part(index + 1), part, run.signal)
  await readBack(archive, names.manifest, record.manifest, run.signal)
  await putBytes(archive, names.record, Buffer.from(JSON.stringify(record)), run.signal)
  return record
}

function refuseTablespace(tablespace: string | undefined): void {
  if (tablespace !== undefined) throw new Error(`the tablespace at ${tablespace} is not backed up`)
}

async function putBytes(archive: Archive, name: string, bytes: Buffer, signal?: AbortSignal): Promise<Content> {
  const content = { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length }
  await putOnce(archive, { name, content, source: oneChunk(bytes) }, signal)
  return content
}

async function* oneChunk(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

/** @throws ArchiveError `damaged` unless the object is there, whole, with this content */
async function readBack(
  { store, keys }: Archive,
  name: string,
  { sha256 }: Content,
  signal?: AbortSignal,
): Promise<void> {
  const stored = await store.read(name, undefined, signal)
  if (stored === undefined) throw new ArchiveError({ kind: 'damaged', name, detail: 'it is not there any more' })
  const { content } = await authenticated(stored, { name, keys })
  if (content?.sha256 !== sha256) throw new ArchiveError({ kind: 'damaged', name, detail: 'it has other content' })
}

/** Cuts a stream of bytes into parts. While one is written, the next is filled; then the source waits. */
class Parts {
  readonly #write: (content: Buffer) => Promise<Content>
  readonly #written: Promise<Content>[] = []
  #held: Buffer[] = []
  #size = 0
  bytes = 0

  constructor(write: (content: Buffer) => Promise<Content>) {
    this.#write = write
  }

  /** The number of the part that is being written, from 1. */
  get count(): number {
    return this.#written.length + 1
  }

  /** @returns whether a part became full */
  async add(chunk: Buffer): Promise<boolean> {
    this.#held.push(chunk)
    this.#size += chunk.length
    this.bytes += chunk.length
    if (this.#size < partBytes) return false
    await this.#flush()
    return true
  }

  async end(): Promise<Content[]> {
    if (this.#size > 0) await this.#flush()
    return Promise.all(this.#written)
  }

  async #flush(): Promise<void> {
    const content = Buffer.concat(this.#held)
    this.#held = []
    this.#size = 0
    await this.#written.at(-1)
    const written = this.#write(content)
    // It is awaited with the next part or at the end; until then a failure is not an unhandled one.
    written.catch(() => {})
    this.#written.push(written)
  }
}
