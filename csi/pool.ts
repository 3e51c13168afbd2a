/**
 * The pool: volumes and snapshots as image files in one directory of a file system with reflinks (XFS, btrfs).
 *
 *     volumes/<id>/image      an XFS file system, as large as the volume, holding only what was written
 *     volumes/<id>/about.json what the image cannot say; its size is the volume's, so that growing is one step
 *     snapshots/<id>/...      the same
 *     .new-*                  being made; worthless
 *
 * A volume, a clone or a snapshot appears by one rename of a whole, flushed directory, and goes by one rename too, so a
 * crash leaves all of it or nothing. Ids come from the names that callers give, so that a call made again finds what it
 * made before.
 *
 * A snapshot is one reflink of one file. The file system holds back writes to the file and flushes what was written while
 * it makes one (ioctl_ficlonerange(2)), so it is one instant of the whole volume: what a power cut would leave.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat, statfs, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { run } from '../server/command.ts'
import { xfsOptions } from '../server/xfs.ts'
import { CsiError } from './errors.ts'

const source = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('snapshot'), id: z.string() }),
  z.strictObject({ kind: z.literal('volume'), id: z.string() }),
])
export type Source = z.output<typeof source>

const volumeAbout = z.strictObject({
  id: z.string(),
  /** What the caller calls it. */
  name: z.string(),
  /** The size of the image, which alone says so. */
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

const image = 'image'
const about = 'about.json'
const unfinished = '.new-'
/** Blocks of XFS; sizes are whole numbers of them. */
const blockBytes = 4096
/** mkfs.xfs makes nothing smaller. */
const smallestBytes = 300 * 1024 * 1024
/**
 * With less than this part free nothing new is made, and as much is promised to nobody: a full pool fails the writes of
 * every volume on it, and the pool's file system takes room for itself (4 % of 1 GiB, 1 % of 20).
 */
const leastFree = 0.05
/** In all, so long may a file system take to give back what has been deleted. */
const fullLooks = 30
const lookMs = 100

const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 32)
const volumeId = (name: string): string => `vol-${hash(name)}`
const snapshotId = (name: string): string => `snap-${hash(name)}`
const idPattern = /^(vol|snap)-[0-9a-f]{32}$/

export type Pool = Awaited<ReturnType<typeof openPool>>

async function flush(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * `overcommit`: how many times the pool's size, less what is kept free, may be promised to volumes. 1 keeps room for all
 * to fill up, but for what their snapshots hold on to.
 */
export async function openPool({
  directory,
  overcommit,
  now,
}: {
  directory: string
  overcommit: number
  now: () => number
}) {
  const places = { volumes: join(directory, 'volumes'), snapshots: join(directory, 'snapshots') }
  for (const place of Object.values(places)) {
    await mkdir(place, { recursive: true, mode: 0o700 })
    for (const name of await readdir(place)) {
      if (name.startsWith(unfinished)) await rm(join(place, name), { recursive: true, force: true })
    }
  }

  const imageOf = ({ id }: { id: string }): string =>
    join(id.startsWith('snap-') ? places.snapshots : places.volumes, id, image)

  async function read<T>(place: string, id: string, schema: z.ZodType<T>): Promise<T | undefined> {
    // An id is part of a path: one that we never gave names nothing.
    if (!idPattern.test(id)) return undefined
    try {
      const { size: bytes } = await stat(join(place, id, image))
      return schema.parse({ ...JSON.parse(await readFile(join(place, id, about), 'utf8')), bytes })
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
  }
  const list = async <T>(place: string, schema: z.ZodType<T>): Promise<T[]> => {
    const ids = (await readdir(place)).filter(name => idPattern.test(name)).sort()
    return (await Promise.all(ids.map(id => read(place, id, schema)))).filter(found => found !== undefined)
  }

  const findVolume = (id: string) => read(places.volumes, id, volumeAbout)
  const findSnapshot = (id: string) => read(places.snapshots, id, snapshotAbout)
  const volumes = () => list(places.volumes, volumeAbout)
  const snapshots = () => list(places.snapshots, snapshotAbout)

  /** Makes a directory whole, or not at all. */
  async function publish(
    place: string,
    id: string,
    { bytes: _, ...content }: Volume | Snapshot,
    fill: (path: string) => Promise<void>,
  ): Promise<void> {
    const scratch = join(place, `${unfinished}${randomBytes(8).toString('hex')}`)
    await mkdir(scratch, { mode: 0o700 })
    try {
      const path = join(scratch, image)
      await fill(path)
      await flush(path)
      await writeFile(join(scratch, about), JSON.stringify(content), { mode: 0o600, flush: true })
      await flush(scratch)
      await rename(scratch, join(place, id))
      await flush(place)
    } catch (error) {
      await rm(scratch, { recursive: true, force: true })
      throw error
    }
  }

  async function remove(place: string, id: string): Promise<void> {
    if (!idPattern.test(id)) return
    const scratch = join(place, `${unfinished}${randomBytes(8).toString('hex')}`)
    try {
      await rename(join(place, id), scratch)
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return
      throw error
    }
    await flush(place)
    await rm(scratch, { recursive: true, force: true })
  }

  async function space(): Promise<{ total: number; free: number }> {
    const { blocks, bavail, bsize } = await statfs(directory)
    return { total: blocks * bsize, free: bavail * bsize }
  }

  /** Whether hardly any room is left. XFS gives back what has been deleted a moment later, and sooner where it is asked: what looks full is looked at again. */
  async function isFull(): Promise<boolean> {
    for (let looks = 0; looks < fullLooks; looks++) {
      const { total, free } = await space()
      if (free >= total * leastFree) return false
      await pause(lookMs)
    }
    return true
  }

  /** Bytes that can still be promised. */
  async function available(): Promise<number> {
    if (await isFull()) return 0
    const { total } = await space()
    const promised = (await volumes()).reduce((sum, volume) => sum + volume.bytes, 0)
    const left = Math.floor(total * (1 - leastFree) * overcommit) - promised
    return Math.max(0, Math.floor(left / blockBytes) * blockBytes)
  }

  async function requireRoom(bytes: number): Promise<void> {
    const left = await available()
    if (bytes > left) {
      throw new CsiError('RESOURCE_EXHAUSTED', `the pool has ${left} bytes left to promise, and ${bytes} are asked for`)
    }
  }

  const reflink = (from: string, to: string) => run('cp', '--reflink=always', '--sparse=auto', from, to)

  async function originOf(from: Source): Promise<{ id: string; bytes: number }> {
    const found = await (from.kind === 'snapshot' ? findSnapshot(from.id) : findVolume(from.id))
    if (found === undefined) throw new CsiError('NOT_FOUND', `there is no ${from.kind} ${from.id}`)
    return found
  }

  return {
    findVolume,
    findSnapshot,
    volumes,
    snapshots,
    available,
    imageOf,

    /** `required` and `limit` in bytes; 0: none. A volume made before under the name is found again. */
    async createVolume(name: string, required: number, limit: number, from?: Source): Promise<Volume> {
      const id = volumeId(name)
      const fits = (bytes: number) => bytes >= required && (limit === 0 || bytes <= limit)
      const existing = await findVolume(id)
      if (existing !== undefined) {
        const isSame = fits(existing.bytes) && existing.source?.kind === from?.kind && existing.source?.id === from?.id
        if (isSame) return existing
        throw new CsiError('ALREADY_EXISTS', `volume ${name} exists with another size or content`)
      }
      const origin = from && (await originOf(from))
      const wanted = Math.max(
        required,
        origin?.bytes ?? (required > 0 ? 0 : Math.min(2 ** 30, limit || 2 ** 30)),
        smallestBytes,
      )
      const bytes = Math.ceil(wanted / blockBytes) * blockBytes
      if (!fits(bytes))
        throw new CsiError('OUT_OF_RANGE', `a volume of ${bytes} bytes is the smallest, above the limit ${limit}`)
      await requireRoom(bytes)
      const volume: Volume = { id, name, bytes, ...(from && { source: from }) }
      await publish(places.volumes, id, volume, async path => {
        if (origin === undefined) {
          await (await open(path, 'wx', 0o600)).close()
          await truncate(path, bytes)
          await run('mkfs.xfs', '-q', '-K', ...xfsOptions, path)
        } else {
          await reflink(imageOf(origin), path)
          await truncate(path, bytes)
        }
      })
      return volume
    },

    deleteVolume: (id: string) => remove(places.volumes, id),

    /** Grows the image; the file system in it grows on the node. @returns its size */
    async expandVolume(id: string, required: number, limit: number): Promise<number> {
      const volume = await findVolume(id)
      if (volume === undefined) throw new CsiError('NOT_FOUND', `there is no volume ${id}`)
      const bytes = Math.max(volume.bytes, Math.ceil(required / blockBytes) * blockBytes)
      if (limit > 0 && bytes > limit)
        throw new CsiError('OUT_OF_RANGE', `the volume has ${bytes} bytes, above the limit ${limit}`)
      if (bytes > volume.bytes) {
        await requireRoom(bytes - volume.bytes)
        await truncate(imageOf(volume), bytes)
      }
      // Also where it is large enough already: whoever grew it may have ended before this.
      await flush(imageOf(volume))
      return bytes
    },

    async createSnapshot(name: string, volume: string): Promise<Snapshot> {
      const id = snapshotId(name)
      const existing = await findSnapshot(id)
      if (existing !== undefined) {
        if (existing.volume === volume) return existing
        throw new CsiError('ALREADY_EXISTS', `snapshot ${name} exists, of another volume`)
      }
      const origin = await originOf({ kind: 'volume', id: volume })
      // Kubernetes' snapshotter takes RESOURCE_EXHAUSTED for one that may still be made, and deletes it only once it is.
      if (await isFull()) throw new CsiError('FAILED_PRECONDITION', 'the pool is full')
      const snapshot: Snapshot = { id, name, volume, bytes: origin.bytes, takenAt: now() }
      await publish(places.snapshots, id, snapshot, async path => void (await reflink(imageOf(origin), path)))
      return snapshot
    },

    deleteSnapshot: (id: string) => remove(places.snapshots, id),
  }
}
