/**
 * Decides the pool's size and its usable part. Pure. The image contains only written blocks, so the pool can be larger
 * than the free space of its disk. If the disk cannot store a write, the pool's entire file system stops. On a full
 * file system, only the write fails. So the pool reserves, inside itself, the space that the disk cannot store.
 */
const mebibyte = 2 ** 20
const gibibyte = 2 ** 30

export type PoolState = {
  /** The size of the image, and its allocated blocks on the disk. */
  imageBytes: number
  allocatedBytes: number
  /** Free space for all writers in the pool's file system, and its reserved space. */
  freeBytes: number
  reservedBytes: number
  /** Free space on the image's disk. */
  diskFreeBytes: number
  diskBytes: number
}

type PoolSize = {
  /** The new size of the image: unchanged or larger. */
  imageBytes: number
  reservedBytes: number
}

/** No pool is created below this size. */
const smallestPoolBytes = gibibyte
const firstPoolBytes = 16 * gibibyte
/** The reserve shrinks only by more than this, or to zero. */
const hysteresisBytes = 64 * mebibyte

const toMebibytes = (bytes: number): number => Math.floor(bytes / mebibyte) * mebibyte

/** Disk space that the pool leaves to other writers, which may write between two checks. */
const backingOf = (disk: Pick<PoolState, 'diskFreeBytes' | 'diskBytes'>): number =>
  Math.max(0, disk.diskFreeBytes - Math.min(gibibyte, disk.diskBytes / 10))

/** The size of a new image; undefined if the disk has no space for one. */
export function firstSize(disk: Pick<PoolState, 'diskFreeBytes' | 'diskBytes'>): number | undefined {
  const bytes = Math.min(firstPoolBytes, toMebibytes(backingOf(disk)))
  return bytes < smallestPoolBytes ? undefined : bytes
}

export function planSize(state: PoolState): PoolSize {
  const { imageBytes, allocatedBytes, freeBytes, reservedBytes } = state
  const backing = backingOf(state)
  // Deleted blocks are free before the image returns them to the disk. XFS may still write to other free blocks, which
  // then need disk space.
  const unbacked = Math.max(imageBytes - allocatedBytes, freeBytes + reservedBytes)
  const available = backing - unbacked
  const isShort = freeBytes < Math.max(firstPoolBytes / 2, imageBytes / 4)
  if (isShort && available >= gibibyte) {
    const more = Math.min(available, Math.max(firstPoolBytes, imageBytes / 4))
    return { imageBytes: imageBytes + toMebibytes(more), reservedBytes: 0 }
  }
  // Rounded up, so that a pool without disk space has no free byte and is reported as full.
  const wanted = Math.min(Math.ceil(Math.max(0, -available) / mebibyte) * mebibyte, freeBytes + reservedBytes)
  const isNear = wanted > 0 && wanted <= reservedBytes && reservedBytes - wanted <= hysteresisBytes
  return { imageBytes, reservedBytes: isNear ? reservedBytes : wanted }
}
