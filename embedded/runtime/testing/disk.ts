/** A file system of its own for a test, which only root can mount. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryDirectory } from './runtime.ts'

/** @param size as truncate(1) takes it. @returns where it is mounted, until the test has finished */
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
