/** A small disk for a test, which only root can mount, and what fills it. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { open, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'

export const canMount = process.getuid?.() === 0

/** @returns what is called before the installation is ended, whose directories cannot be removed under a mount */
export function mountDisk(megabytes: number, directory: string): () => void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory])
  return () => execFileSync('umount', ['-l', directory])
}

/**
 * Mounts an ext4 image of its own, without blocks kept back for root: unlike a tmpfs it is a real file system on a block device.
 * @returns what unmounts it and deletes the image
 */
export function mountImage(megabytes: number, directory: string): () => void {
  const image = `${directory}.image`
  execFileSync('truncate', ['-s', `${megabytes}M`, image])
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image])
  execFileSync('mount', ['-o', 'loop', image, directory])
  return () => {
    execFileSync('umount', ['-l', directory])
    rmSync(image)
  }
}

/** A file that takes all the room there is, but for so many bytes. @returns what gives it back */
export async function fillDisk(directory: string, leave = 0): Promise<() => Promise<void>> {
  const ballast = join(directory, 'ballast')
  const file = await open(ballast, 'w')
  // Written and not reserved: who else writes here meanwhile changes how much there is.
  const zeros = Buffer.alloc(65_536)
  const hasRoom = async () => {
    const { bavail, bsize } = await statfs(directory)
    return bavail * bsize > leave
  }
  try {
    // To the last byte, beyond what the file system says that it has.
    while (leave === 0 || (await hasRoom())) await file.write(zeros)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
  } finally {
    await file.close()
  }
  return () => rm(ballast, { force: true })
}
