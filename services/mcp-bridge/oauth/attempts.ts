/** How often a password was wrong, for each address and each account: who guesses is made to wait. */
import { LRUCache } from 'lru-cache'
import { networkOf } from '../../http/address.ts'

type Window = { readonly began: number; failures: number }

export type AttemptLimits = { readonly maximum: number; readonly windowMs: number }

const mostKept = 20_000
/** An account has more than an address, so that to lock somebody out takes many addresses. */
const accountFactor = 5

export class Attempts {
  readonly #limits: AttemptLimits
  readonly #now: () => number
  readonly #windows: LRUCache<string, Window>

  constructor(limits: AttemptLimits, now: () => number) {
    this.#limits = limits
    this.#now = now
    this.#windows = new LRUCache({ max: mostKept })
  }

  #window(key: string): Window | undefined {
    const window = this.#windows.get(key)
    return window !== undefined && this.#now() - window.began < this.#limits.windowMs ? window : undefined
  }

  isLimited(address: string, account: string): boolean {
    const { maximum } = this.#limits
    const failures = (key: string) => this.#window(key)?.failures ?? 0
    return failures(`a:${networkOf(address)}`) >= maximum || failures(`u:${account}`) >= maximum * accountFactor
  }

  failed(address: string, account: string): void {
    for (const key of [`a:${networkOf(address)}`, `u:${account}`]) {
      const window = this.#window(key) ?? { began: this.#now(), failures: 0 }
      window.failures += 1
      this.#windows.set(key, window)
    }
  }

  /** Takes back the one that was counted beforehand. The address keeps the others: its owner may have an account as well. */
  succeeded(address: string, account: string): void {
    this.#windows.delete(`u:${account}`)
    const window = this.#window(`a:${networkOf(address)}`)
    if (window !== undefined) window.failures -= 1
  }
}
