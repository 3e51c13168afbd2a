/**
 * Records which statements have large results. The record affects only how Postgres returns the rows, not which rows.
 * Few rows are faster as one aggregated value. Many rows are sent one by one, so that the first byte arrives earlier.
 */
import { SieveCache } from '../../cache/sieve.ts'

const largeBytes = 262_144
const smallBytes = 65_536
const maximumEntries = 2_000
/** Longer statements are not recorded. */
const longestText = 4_000

export class AnswerSizes {
  readonly #seen = new SieveCache<boolean>(maximumEntries)

  /** Whether the result will be large. Returns `guess` if the statement has not been recorded. */
  isLarge(text: string, guess: boolean): boolean {
    return (text.length <= longestText ? this.#seen.get(text) : undefined) ?? guess
  }

  /** Sizes between small and large do not change the record. */
  record(text: string, bytes: number): void {
    if (text.length > longestText) return
    if (bytes > largeBytes) this.#seen.set(text, true)
    else if (bytes <= smallBytes) this.#seen.set(text, false)
  }
}
