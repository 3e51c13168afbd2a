/** A separate file system for a test, which only root can mount. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryDirectory } from './runtime.ts'

/** @param size as truncate(1) accepts it. @returns the mount point, valid until the test ends */
export function mountDisk(kind: 'ext4' | 'xfs', size: string): string {
  const disk = temporaryDirectory()
  const [image, mounted] = [join(disk, 'image'), join(disk, 'mounted')]
  execFileSync('truncate', ['-s', size, image])
  execFileSync(`mkfs.${kind}`, ['-q', image])
  mkdirSync(mounted)
  execFileSync('mount', ['-o', 'loop', image, mounted])
  onTestFinished(() => void execFileSync('umount', ['-l', mounted]))
  return mounted
}
