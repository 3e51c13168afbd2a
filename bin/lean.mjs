import { lstatSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * V8 flags for a process that keeps much and allocates little, such as the gateway: it collects more often and uses
 * about half the memory, without a visible effect on its latencies. They count only from the start.
 */
export const leanFlags = ['--optimize-for-size', '--max-semi-space-size=1']

/**
 * The same for the operator, which reads all that it keeps when it starts (bench/scale.ts). Most of a page of a list is
 * garbage-collected early in a young generation of this size; `--optimize-for-size`, which would disable that, is set
 * once the process runs (server/heap.ts).
 */
export const fillingFlags = ['--max-semi-space-size=16', '--min-semi-space-size=8']

/**
 * For a process that serves many requests with little retained memory each: garbage is collected before it grows large.
 * A worker of the REST service uses half the memory under load, for a few per cent more CPU (bench/rest.ts).
 */
export const servingFlags = ['--max-semi-space-size=2']

/**
 * For the retrieval server, whose memory would otherwise grow to 200 MiB. `--optimize-for-size` would use 20 MiB less,
 * but half as much CPU again (bench/rag.ts).
 */
export const retrievalFlags = ['--heap-growing-percent=30', '--max-semi-space-size=4']

/**
 * The directory of compiled modules: a process that finds its TypeScript already compiled does not load the compiler,
 * which takes some 25 MiB, and starts in two thirds of the time. Only in a directory that belongs to the user and that
 * no other user can write to, since its content is executed; undefined if there is none, and if the environment sets it
 * already.
 *
 * @param {NodeJS.ProcessEnv} environment
 */
export function compileCacheFor(environment) {
  if (environment.NODE_COMPILE_CACHE !== undefined || environment.NODE_DISABLE_COMPILE_CACHE !== undefined)
    return undefined
  try {
    const directory = join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier', 'compiled')
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const { uid, mode } = lstatSync(directory)
    return uid === process.getuid?.() && (mode & 0o022) === 0 ? directory : undefined
  } catch {
    return undefined
  }
}
