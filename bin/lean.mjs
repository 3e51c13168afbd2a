import { lstatSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * V8 flags for a process that keeps many objects and allocates few, such as the gateway. V8 collects garbage more often
 * and uses about half the memory, without a visible effect on latency. V8 reads the semi-space size only at its start.
 */
export const leanFlags = ['--optimize-for-size', '--max-semi-space-size=1']

/**
 * V8 flags for the operator, which fills its caches when it starts (bench/scale.ts). A page of a list is mostly
 * garbage, which V8 collects early in a young generation of this size. `--optimize-for-size` would prevent this, so the
 * process does not start with this flag. The process sets it later (server/heap.ts).
 */
export const fillingFlags = ['--max-semi-space-size=16', '--min-semi-space-size=8']

/**
 * V8 flags for a process that serves many requests and retains little memory for each. V8 collects garbage before it
 * grows large. A worker of the REST service uses half the memory under load, for a few per cent more CPU
 * (bench/rest.ts).
 */
export const servingFlags = ['--max-semi-space-size=2']

/**
 * V8 flags for the retrieval server, whose memory would otherwise grow to 200 MiB. `--optimize-for-size` would use
 * 20 MiB less memory, but 50 % more CPU (bench/rag.ts).
 */
export const retrievalFlags = ['--heap-growing-percent=30', '--max-semi-space-size=4']

/**
 * Creates the directory of compiled modules if it is missing, and returns it. A process that finds compiled modules
 * there does not load the compiler. This saves about 25 MiB, and a third of the start time.
 *
 * Returns undefined if the environment already configures the cache, or if there is no safe directory. Node executes
 * the files of the directory, so the user must own it, and no other user may be able to write to it.
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
