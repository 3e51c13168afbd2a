/**
 * Takes the image of a volume while processes write to it: crash-consistent, that is, what a power cut at one moment
 * would have left. Without copy-on-write most of it is copied before that moment and only what changed since at it.
 */
import { rmSync } from 'node:fs'
import { RuntimeError } from '../errors.ts'
import { freezeTrees } from '../processes/freeze.ts'
import { copyHot, openCopier } from './copier.ts'
import type { VolumeUse } from './use.ts'

/** Processes are never stopped for longer than this. */
const mostFrozenMs = 30_000

export type ImageResult = {
  /** The moment of the image, ms since the epoch. */
  takenAt: number
  bytes: number
  /** How long the processes stood still. */
  frozenMs: number
  processes: number
}

type ImageOptions = {
  /** The volume's handle and directory. */
  volume: string
  source: string
  /** Made by this; removed again where it fails. */
  target: string
  use: VolumeUse
  now: () => number
}

/** @throws RuntimeError `FreezeFailed`, or the system error that the copy met */
export async function takeImage({ volume, source, target, use, now }: ImageOptions): Promise<ImageResult> {
  const copier = await openCopier({ source, target })
  try {
    // What nothing writes to needs no second look.
    if (use.isMounted(volume)) await copyHot(copier)
    const release = await use.freeze(volume)
    try {
      const begin = performance.now()
      const freeze = await freezeTrees(use.writers([volume]), mostFrozenMs)
      try {
        const takenAt = now()
        const { bytes } = await copier.pass(true)
        if (freeze.broken) throw new RuntimeError('FreezeFailed', 'processes were continued before the image was whole')
        freeze.thaw()
        return { takenAt, bytes, frozenMs: performance.now() - begin, processes: freeze.processes }
      } finally {
        freeze.thaw()
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
