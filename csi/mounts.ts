/** What is mounted where on this node, as the kernel tells it; nothing is remembered. */
import { mkdir, readFile, rmdir, stat } from 'node:fs/promises'
import { run } from './command.ts'

export type Mount = { device: string; path: string }

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

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Mounts the file system in an image, once, and lets it grow to the image's size. */
export async function mountImage(image: string, path: string): Promise<void> {
  await mkdir(path, { recursive: true })
  if ((await mountAt(path)) === undefined) {
    // The loop device goes with the mount. `discard` gives back to the pool what is deleted; a copy has its source's UUID.
    await run('mount', '-t', 'xfs', '-o', 'loop,noatime,nouuid,discard', image, path)
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

export async function bind(from: string, to: string, isReadOnly: boolean): Promise<void> {
  await mkdir(to, { recursive: true })
  if ((await mountAt(to)) === undefined) await run('mount', '--bind', from, to)
  if (isReadOnly) await run('mount', '-o', 'remount,bind,ro', to)
}

/** Takes away every mount at a path, and the directory. */
export async function unmount(path: string): Promise<void> {
  while ((await mountAt(path)) !== undefined) await run('umount', path)
  if (await exists(path)) await rmdir(path)
}
