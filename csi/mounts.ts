/** Mounts volumes on this node. It reads the state only from the kernel and caches nothing. */
import { mkdir, rmdir, stat } from 'node:fs/promises'
import { run } from '../server/command.ts'
import { devicesOf, type Mount, mountAt, mounts } from '../server/mounts.ts'
import { CsiError } from './errors.ts'

/** The mount points of a device, other than these paths. */
export const mountedElsewhere = async (device: string, paths: readonly string[]): Promise<string | undefined> =>
  (await mounts()).find(mount => mount.device === device && !paths.includes(mount.path))?.path

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Mounts the file system in an image, once, and grows it to the image's size.
 * @throws CsiError `FAILED_PRECONDITION` if another file system is mounted there
 */
export async function mountImage(image: string, path: string): Promise<void> {
  await mkdir(path, { recursive: true })
  const mounted = await mountAt(path)
  if (mounted === undefined) {
    // The loop device is released with the mount. `discard` returns deleted blocks to the pool. `nouuid` is needed
    // because a copy has the UUID of its source.
    await run('mount', '-t', 'xfs', '-o', 'loop,noatime,nouuid,discard', image, path)
  } else if (!(await devicesOf(image)).includes(mounted.device)) {
    throw new CsiError('FAILED_PRECONDITION', `another file system is mounted at ${path}`)
  }
  await run('xfs_growfs', path)
}

/** Call this after the image has grown. Grows its loop device, then the file system. */
export async function growMounted(path: string): Promise<void> {
  const mount = await mountAt(path)
  if (mount === undefined) return
  await run('losetup', '--set-capacity', mount.device)
  await run('xfs_growfs', path)
}

/** @throws CsiError `FAILED_PRECONDITION` if another device than that of `from` is mounted at `to` */
export async function bind(from: Mount, to: string, isReadOnly: boolean): Promise<void> {
  await mkdir(to, { recursive: true })
  const mounted = await mountAt(to)
  if (mounted === undefined) await run('mount', '--bind', from.path, to)
  else if (mounted.device !== from.device)
    throw new CsiError('FAILED_PRECONDITION', `another file system is mounted at ${to}`)
  if (isReadOnly) await run('mount', '-o', 'remount,bind,ro', to)
}

/** Unmounts every mount at a path, and removes the directory. */
export async function unmount(path: string): Promise<void> {
  while ((await mountAt(path)) !== undefined) await run('umount', path)
  if (await exists(path)) await rmdir(path)
}
