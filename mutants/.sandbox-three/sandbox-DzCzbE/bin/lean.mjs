// @ts-nocheck
import { lstatSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * V8's flags for a process that keeps much and allocates little, such as the operator: it collects more often and
 * holds about half the memory, at no cost that its latencies show (bench/scale.ts). They count only from the start.
 */
export const leanFlags = ['--optimize-for-size', '--max-semi-space-size=1']

/**
 * For a process that serves many requests, each of which leaves little behind: garbage is collected before it grows large. A worker of the REST
 * service holds half the memory under load, for a few per cent more of the processor (bench/rest.ts).
 */
export const servingFlags = ['--max-semi-space-size=2']

/**
 * The environment with a cache of compiled modules: a process that finds its TypeScript made into JavaScript does not load what makes it, which takes some
 * 25 MiB. Only in a directory of the user's own that nobody else can write to, since what stands there is run; without one there is no cache.
 *
 * @param {NodeJS.ProcessEnv} environment
 */
export function withCompileCache(environment) {
  if (environment.NODE_COMPILE_CACHE !== undefined || environment.NODE_DISABLE_COMPILE_CACHE !== undefined)
    return environment
  try {
    const directory = join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier', 'compiled')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const { uid, mode } = lstatSync(directory)
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0) return environment
    return { ...environment, NODE_COMPILE_CACHE: directory }
  } catch {
    return environment
  }
}
