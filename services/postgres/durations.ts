/**
 * Measured durations of statements with small results. They decide only whether a statement may share a connection, and
 * never its result.
 */
import { SieveCache } from '../cache/sieve.ts'

const maximumEntries = 2_000
/** Longer statements are not recorded. */
const longestText = 4_000
/** Statements with larger results or longer runs need a connection of their own. */
const smallBytes = 65_536
const shortMs = 0.25
/**
 * The recorded duration follows faster runs at once, and slower runs gradually, because a slow run may only have waited for a CPU.
 */
const slowing = 0.005

export class Durations {
  readonly #seen = new SieveCache<number>(maximumEntries)

  /** The duration in milliseconds. Undefined if the statement is not known to be short. */
  ofShort(text: string): number | undefined {
    const expected = text.length <= longestText ? this.#seen.get(text) : undefined
    return expected === undefined || expected > shortMs ? undefined : expected
  }

  record(text: string, tookMs: number, bytes: number): void {
    if (text.length > longestText) return
    const known = this.#seen.get(text) ?? tookMs
    const next = tookMs < known ? tookMs : known + (tookMs - known) * slowing
    this.#seen.set(text, bytes > smallBytes ? Number.POSITIVE_INFINITY : next)
  }

  /** The statement is not treated as short until it is measured again. */
  forget(text: string): void {
    if (this.ofShort(text) !== undefined) this.#seen.set(text, Number.POSITIVE_INFINITY)
  }
}
