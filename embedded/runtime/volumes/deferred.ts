/**
 * Images that are not copied yet. If a snapshot states that its volume is at rest, and no pod has the volume mounted,
 * the volume itself is the image, and a link records this. A pod that needs the volume waits until the image has been
 * copied. If the volume is deleted, its directory becomes the image. A volume has at most one such image, so a
 * directory never has two owners.
 *
 * A copied image has precedence over a link. So each change is one rename, and after a crash exactly one of both is
 * valid.
 */
import { existsSync, lstatSync, mkdirSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Layout, makePassage, type StorageLocation } from '../directories.ts'
import { copyTree } from './copier.ts'
import type { VolumeUse } from './use.ts'
import { flushDirectory, writeToDisk } from './write-to-disk.ts'

/** A snapshot whose image is a volume. */
type Link = { path: string; uid: string; image: string; location: StorageLocation }
type Volume = { volume: string; directory: string }

export type Deferred = {
  /** Makes a volume the image of a snapshot. @returns false if the image must be copied now */
  defer(snapshot: { namespace: string; uid: string }, volume: Volume): boolean
  /** Whether a volume is an image. If so, starts copying it; the caller retries when the volume may be mounted. */
  isImage(volume: Volume): boolean
  /**
   * Makes the directory of a deleted volume an image. @returns `taken` if it now is an image, `busy` if a reader must
   * finish first, `none` if no snapshot needs it
   */
  take(directory: string): 'none' | 'taken' | 'busy'
}

type DeferredOptions = {
  layout: Layout
  use: VolumeUse
  /** Called when a volume may be mounted that a pod waited for. */
  onChange(): void
  logger: Logger
}

const retryMs = 5_000
const readersMs = 50

export function createDeferred({ layout, use, onChange, logger }: DeferredOptions): Deferred {
  /** Directories whose images are being copied. */
  const copying = new Set<string>()

  const linksTo = (directory: string): Link[] =>
    layout.locations.flatMap(location => linksOf(location)).filter(({ path }) => targetOf(path) === directory)

  async function copy({ uid, image, path, location }: Link, { volume, directory }: Volume): Promise<void> {
    const staging = join(location.staging, uid)
    const done = [use.read(volume), use.read(uid)]
    try {
      await rm(staging, { recursive: true, force: true })
      await copyTree({ source: directory, target: staging })
      await writeToDisk(staging, logger)
      publish(staging, image)
      rmSync(path)
    } finally {
      for (const end of done) end()
    }
    // Readers of the image still read the volume.
    while (use.isInUse(uid)) await delay(readersMs)
  }

  async function copyAll(links: Link[], volume: Volume): Promise<void> {
    try {
      for (const link of links) await copy(link, volume)
    } catch (error) {
      logger.warn({ err: error, volume: volume.volume }, 'the image of a snapshot could not be copied; will try again')
      await delay(retryMs, undefined, { ref: false })
    } finally {
      copying.delete(volume.directory)
      onChange()
    }
  }

  return {
    defer({ namespace, uid }, { volume, directory }) {
      const location = layout.locations.find(({ volumes }) => directory.startsWith(`${volumes}/`))
      if (location === undefined || use.isMounted(volume) || copying.has(directory)) return false
      if (linksTo(directory).length > 0) return false
      const path = join(location.deferred, namespace, uid)
      makePassage({ owner: undefined }, dirname(path))
      symlinkSync(relative(dirname(path), directory), path)
      flushDirectory(dirname(path))
      return true
    },
    isImage(volume) {
      if (copying.has(volume.directory)) return true
      const links = linksTo(volume.directory)
      if (links.length === 0) return false
      copying.add(volume.directory)
      void copyAll(links, volume)
      return true
    },
    take(directory) {
      const [link] = linksTo(directory)
      if (link === undefined) return 'none'
      if (copying.has(directory) || use.isInUse(link.uid)) return 'busy'
      publish(directory, link.image)
      rmSync(link.path)
      return 'taken'
    },
  }
}

function publish(directory: string, image: string): void {
  mkdirSync(dirname(image), { recursive: true, mode: 0o700 })
  renameSync(directory, image)
  flushDirectory(dirname(image))
}

const targetOf = (path: string): string => resolve(dirname(path), readlinkSync(path))

/** The links of a file system. A crash can leave a link whose image exists; such a link is deleted. */
function linksOf(location: StorageLocation): Link[] {
  const paths = readdirSync(location.deferred).flatMap(namespace =>
    readdirSync(join(location.deferred, namespace)).map(uid => join(location.deferred, namespace, uid)),
  )
  return paths.flatMap(path => {
    const uid = basename(path)
    const image = join(location.snapshots, basename(dirname(path)), uid)
    if (!existsSync(image)) return [{ path, uid, image, location }]
    rmSync(path)
    return []
  })
}

/** The contents of a tree's files. */
export function treeBytes(path: string): number {
  const stats = lstatSync(path)
  if (!stats.isDirectory()) return stats.isFile() ? stats.size : 0
  return readdirSync(path).reduce((sum, name) => sum + treeBytes(join(path, name)), 0)
}
