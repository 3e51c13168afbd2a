/** How long Postgres takes for statements that have small answers, as far as has been seen. It decides whether one may share a connection with others, never what it says. */
import { SieveCache } from '../cache/sieve.ts'

const maximumKept = 2_000
/** What is longer is taken for unknown. */
const longestText = 4_000
/** What is larger, or takes longer, is for a connection of its own. */
const smallBytes = 65_536
const shortMs = 0.25
/** What is quicker than before counts at once, what is slower bit by bit: it may only have waited for a processor. */
const slowing = 0.005

export class Durations {
  readonly #seen = new SieveCache<number>(maximumKept)

  /** In milliseconds; undefined where it is not known to be short. */
  ofShort(text: string): number | undefined {
    const expected = text.length <= longestText ? this.#seen.get(text) : undefined
    return expected === undefined || expected > shortMs ? undefined : expected
  }

  learn(text: string, tookMs: number, bytes: number): void {
    if (text.length > longestText) return
    const known = this.#seen.get(text) ?? tookMs
    const next = tookMs < known ? tookMs : known + (tookMs - known) * slowing
    this.#seen.set(text, bytes > smallBytes ? Number.POSITIVE_INFINITY : next)
  }

  /** The statement is not known to be short until it is learned again. */
  forget(text: string): void {
    if (this.ofShort(text) !== undefined) this.#seen.set(text, Number.POSITIVE_INFINITY)
  }
}
