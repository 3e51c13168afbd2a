/**
 * Images that are not copied yet. Where a snapshot says that its volume is at rest, and no pod has it mounted, the image is the volume itself: a link says so. A pod
 * that asks for the volume waits until the image has been copied; where the volume is deleted, its directory becomes the
 * image. Of one volume there is one such image at most, so that a directory never has two owners.
 *
 * An image at its own place counts before a link, so each change is one renaming, and a crash leaves one or the other.
 */
import { existsSync, lstatSync, mkdirSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Layout, makePassage, type Place } from '../directories.ts'
import { copyTree } from './copier.ts'
import type { VolumeUse } from './use.ts'
import { flushDirectory, writeToDisk } from './write-to-disk.ts'

/** A snapshot whose image is a volume. */
type Link = { path: string; uid: string; image: string; place: Place }
type Volume = { volume: string; directory: string }

export type Deferred = {
  /** Makes a volume the image of a snapshot. @returns false where a copy has to be made now */
  defer(snapshot: { namespace: string; uid: string }, volume: Volume): boolean
  /** Whether a volume is an image, which is copied from now on; called again when it may be mounted. */
  isImage(volume: Volume): boolean
  /** Makes the directory of a volume that is deleted an image. @returns whether it has become one, or has to wait until one has been read */
  take(directory: string): 'none' | 'taken' | 'busy'
}

type DeferredOptions = {
  layout: Layout
  use: VolumeUse
  /** Called when a volume that was waited for may be mounted. */
  onChange(): void
  logger: Logger
}

const retryMs = 5_000
const readersMs = 50

export function createDeferred({ layout, use, onChange, logger }: DeferredOptions): Deferred {
  /** Directories whose images are being copied. */
  const copying = new Set<string>()

  const linksTo = (directory: string): Link[] =>
    layout.places.flatMap(place => linksOf(place)).filter(({ path }) => targetOf(path) === directory)

  async function copy({ uid, image, path, place }: Link, { volume, directory }: Volume): Promise<void> {
    const staging = join(place.staging, uid)
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
    // Whoever reads it still reads the volume.
    while (use.isHeld(uid)) await delay(readersMs)
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
      const place = layout.places.find(({ volumes }) => directory.startsWith(`${volumes}/`))
      if (place === undefined || use.isMounted(volume) || copying.has(directory)) return false
      if (linksTo(directory).length > 0) return false
      const path = join(place.deferred, namespace, uid)
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
      if (copying.has(directory) || use.isHeld(link.uid)) return 'busy'
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

/** The links of a file system; one whose image has been made is left over from a crash. */
function linksOf(place: Place): Link[] {
  const paths = readdirSync(place.deferred).flatMap(namespace =>
    readdirSync(join(place.deferred, namespace)).map(uid => join(place.deferred, namespace, uid)),
  )
  return paths.flatMap(path => {
    const uid = basename(path)
    const image = join(place.snapshots, basename(dirname(path)), uid)
    if (!existsSync(image)) return [{ path, uid, image, place }]
    rmSync(path)
    return []
  })
}

/** What the files of a tree hold. */
export function treeBytes(path: string): number {
  const stats = lstatSync(path)
  if (!stats.isDirectory()) return stats.isFile() ? stats.size : 0
  return readdirSync(path).reduce((sum, name) => sum + treeBytes(join(path, name)), 0)
}
