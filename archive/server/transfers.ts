/** Bounds how many bodies are on their way at once, in all and for each client. Each holds some 20 MiB of memory at most. */
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

  /** @returns what ends the transfer; undefined where there are too many */
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
      const left = (this.#byClient.get(client) ?? 1) - 1
      if (left === 0) this.#byClient.delete(client)
      else this.#byClient.set(client, left)
    }
  }
}
