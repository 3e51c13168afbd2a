/**
 * Watches files by their content: other files in their directory do not matter, and a change by a symbolic link far
 * above them, as Kubernetes makes it, is detected like any other.
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
  /** The present files; others may be named after a change. */
  readonly paths: () => readonly string[]
  /** Called after a change, and once after the start. It must not throw. */
  readonly onChange: () => void
  readonly intervalMs: number
}

/** A file is used once it has been unchanged for this long, since it may still be being written. */
const stableMs = 100
const mostUnsettled = 20

export class FollowedFiles {
  readonly #following: Following
  readonly #stopped = new AbortController()
  #paths: readonly string[] = []
  /** Initially empty: a change since the files were read for the start is detected at the first check. */
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
