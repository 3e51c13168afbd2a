/** Mounts volumes on this node. The kernel alone says what is mounted; nothing is remembered. */
import { mkdir, rmdir, stat } from 'node:fs/promises'
import { run } from '../server/command.ts'
import { devicesOf, type Mount, mountAt, mounts } from '../server/mounts.ts'
import { CsiError } from './errors.ts'

/** Where else a device is mounted than at these paths. */
export const mountedElsewhere = async (device: string, paths: readonly string[]): Promise<string | undefined> =>
  (await mounts()).find(mount => mount.device === device && !paths.includes(mount.path))?.path

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Mounts the file system in an image, once, and lets it grow to the image's size.
 * @throws CsiError `FAILED_PRECONDITION` where something else is mounted there
 */
export async function mountImage(image: string, path: string): Promise<void> {
  await mkdir(path, { recursive: true })
  const mounted = await mountAt(path)
  if (mounted === undefined) {
    // The loop device goes with the mount. `discard` gives back to the pool what is deleted; a copy has its source's UUID.
    await run('mount', '-t', 'xfs', '-o', 'loop,noatime,nouuid,discard', image, path)
  } else if (!(await devicesOf(image)).includes(mounted.device)) {
    throw new CsiError('FAILED_PRECONDITION', `something else is mounted at ${path}`)
  }
  await run('xfs_growfs', path)
}

/** After the image has grown: its loop device first, then the file system. */
export async function growMounted(path: string): Promise<void> {
  const mount = await mountAt(path)
  if (mount === undefined) return
  await run('losetup', '--set-capacity', mount.device)
  await run('xfs_growfs', path)
}

/** @throws CsiError `FAILED_PRECONDITION` where another device than `from`'s is mounted at `to` */
export async function bind(from: Mount, to: string, isReadOnly: boolean): Promise<void> {
  await mkdir(to, { recursive: true })
  const mounted = await mountAt(to)
  if (mounted === undefined) await run('mount', '--bind', from.path, to)
  else if (mounted.device !== from.device)
    throw new CsiError('FAILED_PRECONDITION', `something else is mounted at ${to}`)
  if (isReadOnly) await run('mount', '-o', 'remount,bind,ro', to)
}

/** Takes away every mount at a path, and the directory. */
export async function unmount(path: string): Promise<void> {
  while ((await mountAt(path)) !== undefined) await run('umount', path)
  if (await exists(path)) await rmdir(path)
}
