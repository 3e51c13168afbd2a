/**
 * How large the pool may be and how much of it may be used: a pure decision. The image holds only what was written, so
 * the pool can promise more than the disk under it has. A write that the disk cannot take would stop the whole file
 * system of the pool; a write into a full file system fails alone, as on any disk. So whatever the disk cannot back is
 * reserved inside the pool.
 */
const mebibyte = 2 ** 20
const gibibyte = 2 ** 30

export type PoolState = {
  /** The size of the image, and how much of it takes room on the disk. */
  imageBytes: number
  allocatedBytes: number
  /** Room in the pool's file system for everybody, and what is reserved in it. */
  freeBytes: number
  reservedBytes: number
  /** Of the disk that holds the image. */
  diskFreeBytes: number
  diskBytes: number
}

type PoolSize = {
  /** The size that the image is to have: the same, or larger. */
  imageBytes: number
  reservedBytes: number
}

/** A pool with less is not made. */
const smallestPoolBytes = gibibyte
const firstPoolBytes = 16 * gibibyte
/** The reserve shrinks only by more than this, unless it goes. */
const hysteresisBytes = 64 * mebibyte

const wholeMebibytes = (bytes: number): number => Math.floor(bytes / mebibyte) * mebibyte

/** What of the disk the pool leaves to everybody else: they may write between two looks. */
const backingOf = (disk: Pick<PoolState, 'diskFreeBytes' | 'diskBytes'>): number =>
  Math.max(0, disk.diskFreeBytes - Math.min(gibibyte, disk.diskBytes / 10))

/** The size of a new image; undefined where the disk has no room for one. */
export function firstSize(disk: Pick<PoolState, 'diskFreeBytes' | 'diskBytes'>): number | undefined {
  const bytes = Math.min(firstPoolBytes, wholeMebibytes(backingOf(disk)))
  return bytes < smallestPoolBytes ? undefined : bytes
}

export function planSize(state: PoolState): PoolSize {
  const { imageBytes, allocatedBytes, freeBytes, reservedBytes } = state
  const backing = backingOf(state)
  // Deleted blocks are free before the image gives them back to the disk. XFS may still write to other free blocks, which need the disk.
  const unbacked = Math.max(imageBytes - allocatedBytes, freeBytes + reservedBytes)
  const room = backing - unbacked
  const isShort = freeBytes < Math.max(firstPoolBytes / 2, imageBytes / 4)
  if (isShort && room >= gibibyte) {
    const more = Math.min(room, Math.max(firstPoolBytes, imageBytes / 4))
    return { imageBytes: imageBytes + wholeMebibytes(more), reservedBytes: 0 }
  }
  // Rounded up: a pool without backing has no free byte, and so is seen as full.
  const wanted = Math.min(Math.ceil(Math.max(0, -room) / mebibyte) * mebibyte, freeBytes + reservedBytes)
  const isNear = wanted > 0 && wanted <= reservedBytes && reservedBytes - wanted <= hysteresisBytes
  return { imageBytes, reservedBytes: isNear ? reservedBytes : wanted }
}
