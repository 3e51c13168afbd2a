import { lstatSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * V8's flags for a process that keeps much and allocates little, such as the gateway: it collects more often and
 * holds about half the memory, at no cost that its latencies show. They count only from the start.
 */
export const leanFlags = ['--optimize-for-size', '--max-semi-space-size=1']

/**
 * The same for one that reads all that it is to keep when it starts, the operator (bench/scale.ts). A page of a list dies young in a young
 * generation of this size, most of it; `--optimize-for-size`, which would allow none, is set once the process runs (server/heap.ts).
 */
export const fillingFlags = ['--max-semi-space-size=16', '--min-semi-space-size=8']

/**
 * For a process that serves many requests, each of which leaves little behind: garbage is collected before it grows large. A worker of the REST
 * service holds half the memory under load, for a few per cent more of the processor (bench/rest.ts).
 */
export const servingFlags = ['--max-semi-space-size=2']

/**
 * For the retrieval server, whose memory would grow to 200 MiB otherwise. `--optimize-for-size` instead holds 20 MiB less, but takes half as much processor time again (bench/rag.ts).
 */
export const retrievalFlags = ['--heap-growing-percent=30', '--max-semi-space-size=4']

/**
 * Where compiled modules are kept: a process that finds its TypeScript made into JavaScript does not load what makes it, which takes some
 * 25 MiB, and starts in two thirds of the time. Only in a directory of the user's own that nobody else can write to, since what stands there
 * is run; undefined where there is none, and where the environment says already what is to be.
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
