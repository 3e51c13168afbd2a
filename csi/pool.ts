/**
 * The pool: volumes and snapshots as image files in one directory of a file system with reflinks (XFS, btrfs).
 *
 *     volumes/<id>/image      a sparse XFS file system, as large as the volume
 *     volumes/<id>/about.json metadata; the size is the image's, so that growing is one step
 *     snapshots/<id>/...      the same
 *
 * Ids are hashes of the names that callers give, so that a repeated call finds what the first call created.
 *
 * A snapshot is one reflink of one file. During the reflink, the file system blocks writes to the file and flushes
 * earlier ones (ioctl_ficlonerange(2)). So a snapshot is one instant of the volume, as after a power failure.
 */
import { createHash } from 'node:crypto'
import { open, statfs, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { run } from '../server/command.ts'
import { xfsOptions } from '../server/xfs.ts'
import { CsiError } from './errors.ts'
import { flush, ImageDirectory } from './image-directory.ts'

const source = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('snapshot'), id: z.string() }),
  z.strictObject({ kind: z.literal('volume'), id: z.string() }),
])
export type Source = z.output<typeof source>

const volumeAbout = z.strictObject({
  id: z.string(),
  /** The name that the caller gave. */
  name: z.string(),
  /** The size of the image file; not stored in about.json. */
  bytes: z.int().positive(),
  source: source.optional(),
})
export type Volume = z.output<typeof volumeAbout>

const snapshotAbout = z.strictObject({
  id: z.string(),
  name: z.string(),
  volume: z.string(),
  bytes: z.int().positive(),
  /** In ms since the epoch. */
  takenAt: z.int(),
})
export type Snapshot = z.output<typeof snapshotAbout>

/** The block size of XFS. Sizes are multiples of it. */
const blockBytes = 4096
/** The smallest file system that mkfs.xfs creates. */
const smallestBytes = 300 * 1024 * 1024
/**
 * The pool creates nothing while less than this part of it is free, and promises this part to no volume. A full pool
 * fails the writes of all volumes on it. The pool's file system also needs space for itself (4 % of 1 GiB, 1 % of 20
 * GiB).
 */
const leastFree = 0.05
/**
 * XFS frees deleted blocks after a delay. The pool counts as full only if it stays full for 30 checks, 100 ms apart.
 */
const fullChecks = 30
const checkMs = 100

const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 32)
const volumeId = (name: string): string => `vol-${hash(name)}`
const snapshotId = (name: string): string => `snap-${hash(name)}`
const toBlocks = (bytes: number): number => Math.ceil(bytes / blockBytes) * blockBytes
const reflink = (from: string, to: string) => run('cp', '--reflink=always', '--sparse=auto', from, to)

type PoolOptions = {
  directory: string
  /**
   * How many times the pool's size, less the reserved part, may be promised to volumes. With 1, all volumes can be
   * filled, as long as their snapshots use no additional blocks.
   */
  overcommit: number
  now: () => number
}

/** Opens a pool. Creates its directories if they are missing, and deletes unfinished entries of an earlier process. */
export async function openPool(options: PoolOptions): Promise<Pool> {
  const volumes = await ImageDirectory.open(join(options.directory, 'volumes'), volumeAbout)
  const snapshots = await ImageDirectory.open(join(options.directory, 'snapshots'), snapshotAbout)
  return new Pool(options, volumes, snapshots)
}

export class Pool {
  readonly #directory: string
  readonly #overcommit: number
  readonly #now: () => number
  readonly #volumes: ImageDirectory<Volume>
  readonly #snapshots: ImageDirectory<Snapshot>

  constructor(
    { directory, overcommit, now }: PoolOptions,
    volumes: ImageDirectory<Volume>,
    snapshots: ImageDirectory<Snapshot>,
  ) {
    this.#directory = directory
    this.#overcommit = overcommit
    this.#now = now
    this.#volumes = volumes
    this.#snapshots = snapshots
  }

  findVolume(id: string): Promise<Volume | undefined> {
    return this.#volumes.find(id)
  }

  volumes(): Promise<Volume[]> {
    return this.#volumes.list()
  }

  snapshots(): Promise<Snapshot[]> {
    return this.#snapshots.list()
  }

  imageOf({ id }: { id: string }): string {
    return (id.startsWith('snap-') ? this.#snapshots : this.#volumes).imageOf(id)
  }

  /** Returns the number of bytes that can still be promised to volumes. */
  async available(): Promise<number> {
    if (await this.#isFull()) return 0
    const { total } = await this.#space()
    const promised = (await this.volumes()).reduce((sum, volume) => sum + volume.bytes, 0)
    const available = Math.floor(total * (1 - leastFree) * this.#overcommit) - promised
    return Math.max(0, Math.floor(available / blockBytes) * blockBytes)
  }

  /**
   * Creates a volume, or returns the volume that has this name. `required` and `limit` are in bytes; 0 means no value.
   */
  async createVolume(name: string, required: number, limit: number, from?: Source): Promise<Volume> {
    const id = volumeId(name)
    const fits = (bytes: number) => bytes >= required && (limit === 0 || bytes <= limit)
    const existing = await this.findVolume(id)
    if (existing !== undefined) {
      const isSame = fits(existing.bytes) && existing.source?.kind === from?.kind && existing.source?.id === from?.id
      if (isSame) return existing
      throw new CsiError('ALREADY_EXISTS', `volume ${name} exists with another size or content`)
    }
    const origin = from && (await this.#originOf(from))
    const defaultBytes = required > 0 ? 0 : Math.min(2 ** 30, limit || 2 ** 30)
    const bytes = toBlocks(Math.max(required, origin?.bytes ?? defaultBytes, smallestBytes))
    if (!fits(bytes))
      throw new CsiError('OUT_OF_RANGE', `the smallest possible volume has ${bytes} bytes, above the limit ${limit}`)
    await this.#requireSpace(bytes)
    const volume: Volume = { id, name, bytes, ...(from && { source: from }) }
    await this.#volumes.publish(volume, path =>
      origin === undefined ? makeFileSystem(path, bytes) : copyImage(this.imageOf(origin), path, bytes),
    )
    return volume
  }

  deleteVolume(id: string): Promise<void> {
    return this.#volumes.remove(id)
  }

  /**
   * Grows the image; the node grows the file system in it. Returns the size of the image. The resizer asks the driver
   * of each node. If a node without the volume answered NOT_FOUND, the resizer would report the request as infeasible.
   * After UNAVAILABLE, it retries.
   */
  async expandVolume(id: string, required: number, limit: number): Promise<number> {
    const volume = await this.findVolume(id)
    if (volume === undefined) throw new CsiError('UNAVAILABLE', `this node has no volume ${id}`)
    const bytes = Math.max(volume.bytes, toBlocks(required))
    if (limit > 0 && bytes > limit)
      throw new CsiError('OUT_OF_RANGE', `the volume has ${bytes} bytes, above the limit ${limit}`)
    if (bytes > volume.bytes) {
      await this.#requireSpace(bytes - volume.bytes)
      await truncate(this.imageOf(volume), bytes)
    }
    // Also flushes an image that is already large enough, because the process that grew it may have died before its
    // flush.
    await flush(this.imageOf(volume))
    return bytes
  }

  async createSnapshot(name: string, volume: string): Promise<Snapshot> {
    const id = snapshotId(name)
    const existing = await this.#snapshots.find(id)
    if (existing !== undefined) {
      if (existing.volume === volume) return existing
      throw new CsiError('ALREADY_EXISTS', `snapshot ${name} exists for another volume`)
    }
    const origin = await this.#originOf({ kind: 'volume', id: volume })
    // On RESOURCE_EXHAUSTED, Kubernetes' snapshotter assumes a pending snapshot and does not delete it.
    if (await this.#isFull()) throw new CsiError('FAILED_PRECONDITION', 'the pool is full')
    const snapshot: Snapshot = { id, name, volume, bytes: origin.bytes, takenAt: this.#now() }
    await this.#snapshots.publish(snapshot, async path => void (await reflink(this.imageOf(origin), path)))
    return snapshot
  }

  deleteSnapshot(id: string): Promise<void> {
    return this.#snapshots.remove(id)
  }

  async #originOf(from: Source): Promise<Volume | Snapshot> {
    const found = await (from.kind === 'snapshot' ? this.#snapshots : this.#volumes).find(from.id)
    if (found === undefined) throw new CsiError('NOT_FOUND', `there is no ${from.kind} ${from.id}`)
    return found
  }

  async #requireSpace(bytes: number): Promise<void> {
    const available = await this.available()
    if (bytes > available) {
      throw new CsiError(
        'RESOURCE_EXHAUSTED',
        `the pool has ${available} bytes left to promise, and ${bytes} are requested`,
      )
    }
  }

  async #isFull(): Promise<boolean> {
    for (let checks = 0; checks < fullChecks; checks++) {
      const { total, free } = await this.#space()
      if (free >= total * leastFree) return false
      await pause(checkMs)
    }
    return true
  }

  async #space(): Promise<{ total: number; free: number }> {
    const { blocks, bavail, bsize } = await statfs(this.#directory)
    return { total: blocks * bsize, free: bavail * bsize }
  }
}

async function makeFileSystem(path: string, bytes: number): Promise<void> {
  await (await open(path, 'wx', 0o600)).close()
  await truncate(path, bytes)
  await run('mkfs.xfs', '-q', '-K', ...xfsOptions, path)
}

async function copyImage(from: string, to: string, bytes: number): Promise<void> {
  await reflink(from, to)
  await truncate(to, bytes)
}
