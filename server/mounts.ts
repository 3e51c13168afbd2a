/** The mounts of this machine, as the kernel reports them. */
import { readFile } from 'node:fs/promises'
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
    .flatMap(fields => {
      const end = fields.indexOf('-')
      const [path, device] = [fields[4], fields[end + 2]]
      return end < 0 || path === undefined || device === undefined ? [] : [{ device, path: plainPath(path) }]
    })
}

export const mounts = async (): Promise<Mount[]> => parseMounts(await readFile('/proc/self/mountinfo', 'utf8'))

export const mountAt = async (path: string): Promise<Mount | undefined> =>
  (await mounts()).findLast(mount => mount.path === path)

/** The loop devices of an image on this machine: usually one, none if it is not mounted. */
export const devicesOf = async (image: string): Promise<string[]> =>
  (await run('losetup', '--associated', image, '--noheadings', '--output', 'NAME')).split('\n').filter(Boolean)
