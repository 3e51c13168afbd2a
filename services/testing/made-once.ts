/**
 * Unmodified packages of registries, for tests. Each package is downloaded once, and every user of this machine can
 * read it.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const downloadMs = 100_000

/** @returns whether the creation succeeded */
export function run(command: string, args: readonly string[]): boolean {
  const { status, error } = spawnSync(command, args, { stdio: 'ignore', timeout: downloadMs })
  return error === undefined && status === 0
}

/**
 * A directory with this name. It is created once and renamed atomically, so that concurrent tests never see a part of
 * it. Undefined if it cannot be created.
 */
export function madeOnce(name: string, make: (making: string) => string | undefined): string | undefined {
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
    // Another process created it first.
    if (existsSync(target)) return target
    throw error
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
}
