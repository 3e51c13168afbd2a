/**
 * Limits the number of concurrent transfers, in total and per client. A transfer of a 16 MiB segment uses at most about
 * 20 MiB of memory.
 */
export class Transfers {
  readonly #most: number
  readonly #mostOfClient: number
  readonly #byClient = new Map<string, number>()
  #running = 0

  constructor(most: number, mostOfClient: number) {
    this.#most = most
    this.#mostOfClient = mostOfClient
  }

  get running(): number {
    return this.#running
  }

  /** @returns a function to call when the transfer has ended; undefined if too many transfers are running */
  begin(client: string): (() => void) | undefined {
    const own = this.#byClient.get(client) ?? 0
    if (this.#running >= this.#most || own >= this.#mostOfClient) return undefined
    this.#running++
    this.#byClient.set(client, own + 1)
    let isEnded = false
    return () => {
      if (isEnded) return
      isEnded = true
      this.#running--
      const remaining = (this.#byClient.get(client) ?? 1) - 1
      if (remaining === 0) this.#byClient.delete(client)
      else this.#byClient.set(client, remaining)
    }
  }
}
