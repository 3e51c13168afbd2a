/**
 * Follows files by their content: what stands beside them in a folder does not matter, and a change by a symbolic link far above them, as Kubernetes makes it, is seen as any
 * other.
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
  /** As they are now; others may be named after a change. */
  readonly paths: () => readonly string[]
  /** Called after a change, and once after the start. It must not throw. */
  readonly onChange: () => void
  readonly intervalMs: number
}

/** A file that is just being written is left until it has stayed the same for so long. */
const settledMs = 100
const mostUnsettled = 20

export class FollowedFiles {
  readonly #following: Following
  readonly #stopped = new AbortController()
  #paths: readonly string[] = []
  /** Of nothing at first: what has changed since the files were read for the start is seen at the first look. */
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
      const found = await this.#settled(await fingerprint(this.#paths))
      if (signal.aborted || found === this.#seen) continue
      this.#seen = found
      this.#following.onChange()
      const paths = this.#following.paths()
      if (paths.join('\n') === this.#paths.join('\n')) continue
      this.#paths = paths
      this.#seen = ''
    }
  }

  async #settled(first: string): Promise<string> {
    let found = first
    for (let times = 0; times < mostUnsettled && found !== this.#seen; times++) {
      await this.#wait(settledMs)
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
