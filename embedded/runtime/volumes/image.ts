/**
 * Takes a crash-consistent image of a volume in use: the state after a power failure at one moment. Without
 * copy-on-write, most of the image is copied before that moment, and only changed parts at that moment.
 */
import { rmSync } from 'node:fs'
import { RuntimeError } from '../errors.ts'
import { freezeTrees } from '../processes/freeze.ts'
import { copyHot, openCopier } from './copier.ts'
import type { VolumeUse } from './use.ts'

/** The processes are never stopped for longer than this. */
const mostFrozenMs = 30_000

export type ImageResult = {
  /** The moment of the image, ms since the epoch. */
  takenAt: number
  bytes: number
  /** How long the processes were stopped. */
  frozenMs: number
  processes: number
}

type ImageOptions = {
  /** The volume's handle and directory. */
  volume: string
  source: string
  /** The directory of the image. This function creates it, and deletes it if it fails. */
  target: string
  use: VolumeUse
  now: () => number
}

/** @throws RuntimeError `FreezeFailed`, or the system error of the copy */
export async function takeImage({ volume, source, target, use, now }: ImageOptions): Promise<ImageResult> {
  const copier = await openCopier({ source, target })
  try {
    // A volume without writers needs no second pass.
    if (use.isMounted(volume)) await copyHot(copier)
    const release = await use.freeze(volume)
    try {
      const begin = performance.now()
      const freeze = await freezeTrees(use.writers([volume]), mostFrozenMs)
      try {
        const takenAt = now()
        const { bytes } = await copier.pass(true)
        if (freeze.broken)
          throw new RuntimeError('FreezeFailed', 'processes were continued before the image was complete')
        freeze.unfreeze()
        return { takenAt, bytes, frozenMs: performance.now() - begin, processes: freeze.processes }
      } finally {
        freeze.unfreeze()
      }
    } finally {
      release()
    }
  } catch (error) {
    await copier.close()
    rmSync(target, { recursive: true, force: true })
    throw error
  } finally {
    await copier.close()
  }
}
