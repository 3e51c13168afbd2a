/** What is mounted where on this node, as the kernel tells it; nothing is remembered. */
// @ts-nocheck

import { mkdir, readFile, rmdir, stat } from 'node:fs/promises'
import { run } from './command.ts'
import { CsiError } from './errors.ts'

type Mount = { device: string; path: string }

/** proc_pid_mountinfo(5) writes space, tab, newline and backslash as octal. */
const plainPath = (text: string): string =>
  text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))

/** Reads mountinfo; pure. Later mounts over the same path come last. */
export function parseMounts(text: string): Mount[] {
  return text
    .split('\n')
    .map(line => line.split(' '))
    .flatMap(words => {
      const end = words.indexOf('-')
      const [path, device] = [words[4], words[end + 2]]
      return end < 0 || path === undefined || device === undefined ? [] : [{ device, path: plainPath(path) }]
    })
}

const mounts = async (): Promise<Mount[]> => parseMounts(await readFile('/proc/self/mountinfo', 'utf8'))

export const mountAt = async (path: string): Promise<Mount | undefined> =>
  (await mounts()).findLast(mount => mount.path === path)

/** Where else a device is mounted than at these paths. */
export const mountedElsewhere = async (device: string, paths: readonly string[]): Promise<string | undefined> =>
  (await mounts()).find(mount => mount.device === device && !paths.includes(mount.path))?.path

/** The loop devices through which an image is in use, on this node: usually one, none where it is not staged. */
export const devicesOf = async (image: string): Promise<string[]> =>
  (await run('losetup', '--associated', image, '--noheadings', '--output', 'NAME')).split('\n').filter(Boolean)

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
