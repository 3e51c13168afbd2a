/**
 * Decides whether copies of volumes share their blocks, and opens the pool that makes this possible. If the home
 * directory's file system cannot share blocks (ext4) and the runtime is root, it gets a pool. The pool is an XFS image
 * in the home directory, for all new volumes and snapshots.
 */
import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import { errorCode, messageOf, RuntimeError } from '../errors.ts'
import { canShareBlocks } from '../volumes/share.ts'
import {
  createPool,
  growPool,
  mountPool,
  type PoolImage,
  poolImage,
  reservedInPool,
  reserveInPool,
  stateOf,
  unmountPool,
} from './image.ts'
import { planSize } from './size.ts'

/** Whether copies of volumes share blocks with their source or are complete copies. */
export type Copies = { kind: 'shared'; pool: string | undefined } | { kind: 'whole'; why: string }

export type Pool = {
  copies: Copies
  /** The location of new volumes; undefined without a pool. */
  directory: string | undefined
  stop(): Promise<void>
}

type PoolOptions = {
  /** The runtime's directory, by its real path. */
  root: string
  /** Whether the runtime may create a pool. An existing pool is used in any case, because it contains volumes. */
  make: boolean
  logger: Logger
}

const checkMs = 1_000

/**
 * No other runtime may use this directory, because an image must be mounted only once.
 * @throws RuntimeError `PoolNotMounted` if a pool exists that cannot be used
 */
export async function openPool(options: PoolOptions): Promise<Pool> {
  const { root, logger } = options
  const image = poolImage(root)
  const found = await findPool(options, image)
  if (found !== undefined) return { copies: found, directory: undefined, stop: async () => undefined }
  const stopKeeping = await keepSize(image, root, logger)
  return {
    copies: { kind: 'shared', pool: image.file },
    directory: image.directory,
    async stop() {
      await stopKeeping()
      await unmountPool(image, logger)
    },
  }
}

/** Mounts the pool; creates it if it is missing. @returns the kind of copies if no pool is possible */
async function findPool({ root, make, logger }: PoolOptions, image: PoolImage): Promise<Copies | undefined> {
  const isRoot = process.getuid?.() === 0
  if (existsSync(image.file)) {
    if (!isRoot) throw new RuntimeError('PoolNotMounted', `volumes are in ${image.file}, which only root can mount`)
    await mountPool(image, logger)
    return undefined
  }
  if (existsSync(image.directory)) {
    const message = `${image.file} is missing, and volumes were in it: put it back, or remove ${image.directory} to continue without them`
    throw new RuntimeError('PoolNotMounted', message)
  }
  const fullCopies = (why: string): Copies => ({ kind: 'whole', why })
  try {
    if (canShareBlocks(root)) return { kind: 'shared', pool: undefined }
  } catch (error) {
    if (errorCode(error) !== 'ENOSPC') throw error
    return fullCopies('the disk is full')
  }
  if (!make) return fullCopies('the file system of the home cannot share blocks, and ESPALIER_POOL is off')
  if (!isRoot) return fullCopies('the file system of the home cannot share blocks, and only root can mount a pool')
  if (!existsSync('/dev/loop-control'))
    return fullCopies('the file system of the home cannot share blocks, and there are no loop devices')
  try {
    await createPool(image, root, logger)
    return undefined
  } catch (error) {
    logger.info({ err: error }, 'could not create a pool')
    return fullCopies(
      `the file system of the home cannot share blocks, and no pool could be created: ${messageOf(error)}`,
    )
  }
}

/**
 * Keeps the pool as large as its volumes need, and limits its writable part to what the disk can store. @returns a
 * function that stops this
 */
async function keepSize(image: PoolImage, root: string, logger: Logger): Promise<() => Promise<void>> {
  let reserved: number | undefined
  let isReserved = false
  let failure: string | undefined

  async function adjust(): Promise<void> {
    reserved ??= await reservedInPool(image)
    const state = await stateOf(image, root, reserved)
    const { imageBytes, reservedBytes } = planSize(state)
    // At the start this always runs: a crash may have interrupted the growth, and the reserve has XFS's default size.
    if (imageBytes > state.imageBytes || !isReserved) await growPool(image, imageBytes)
    if (imageBytes > state.imageBytes) logger.info({ bytes: imageBytes }, 'the pool has grown')
    if (reservedBytes === reserved && isReserved) return
    await reserveInPool(image, reservedBytes)
    if (reservedBytes > reserved)
      logger.warn({ bytes: reservedBytes }, 'the disk is nearly full: part of the pool is not used')
    reserved = reservedBytes
    isReserved = true
  }
  const check = (): Promise<void> =>
    adjust().then(
      () => {
        failure = undefined
      },
      (error: unknown) => {
        if (failure !== messageOf(error)) logger.error({ err: error }, 'the size of the pool could not be adjusted')
        failure = messageOf(error)
      },
    )

  await check()
  let current: Promise<void> | undefined
  const timer = setInterval(() => {
    current ??= check().finally(() => {
      current = undefined
    })
  }, checkMs).unref()
  return async () => {
    clearInterval(timer)
    await current
  }
}
