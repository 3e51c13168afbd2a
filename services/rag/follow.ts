/**
 * Watches files by their content. Other files in a directory do not matter. Detects a change of any symbolic link on
 * the path, as Kubernetes makes it.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

async function fingerprint(paths: readonly string[]): Promise<string> {
  const contents = await Promise.all(
    paths.map(path =>
      readFile(path).then(
        content => createHash('sha256').update(content).digest('hex'),
        (error: NodeJS.ErrnoException) => `cannot be read: ${error.code}`,
      ),
    ),
  )
  return contents.join('\n')
}

type Following = {
  /** The current paths. A change of a file may add paths. */
  readonly paths: () => readonly string[]
  /** Called after a change, and once after the start. Must not throw. */
  readonly onChange: () => void
  readonly intervalMs: number
}

/** A file must be unchanged for this long before it is used, because another process may still be writing it. */
const stableMs = 100
const mostUnsettled = 20

export class FollowedFiles {
  readonly #following: Following
  readonly #stopped = new AbortController()
  #paths: readonly string[] = []
  /** Empty at first, so that the first check detects changes since the files were read for the start. */
  #seen = ''

  constructor(following: Following) {
    this.#following = following
    this.#paths = following.paths()
    void this.#loop()
  }

  stop(): void {
    this.#stopped.abort()
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) {
      await this.#wait(this.#following.intervalMs)
      const found = await this.#untilStable(await fingerprint(this.#paths))
      if (signal.aborted || found === this.#seen) continue
      this.#seen = found
      this.#following.onChange()
      const paths = this.#following.paths()
      if (paths.join('\n') === this.#paths.join('\n')) continue
      this.#paths = paths
      this.#seen = ''
    }
  }

  async #untilStable(first: string): Promise<string> {
    let found = first
    for (let times = 0; times < mostUnsettled && found !== this.#seen; times++) {
      await this.#wait(stableMs)
      const again = await fingerprint(this.#paths)
      if (again === found) break
      found = again
    }
    return found
  }

  async #wait(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopped.signal, ref: false }).catch(() => {})
  }
}
