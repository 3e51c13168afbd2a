/**
 * Records which statements have large results. It decides the form of a statement, never its result: for few rows one
 * aggregated value is faster; for many rows, row by row delivers the first byte earlier.
 */
import { SieveCache } from '../../cache/sieve.ts'

const largeBytes = 262_144
const smallBytes = 65_536
const maximumEntries = 2_000
/** Longer statements are guessed each time. */
const longestText = 4_000

export class AnswerSizes {
  readonly #seen = new SieveCache<boolean>(maximumEntries)

  /** Whether the result will be large; `guess` if the statement has not been recorded. */
  isLarge(text: string, guess: boolean): boolean {
    return (text.length <= longestText ? this.#seen.get(text) : undefined) ?? guess
  }

  /** Sizes between small and large change nothing. */
  record(text: string, bytes: number): void {
    if (text.length > longestText) return
    if (bytes > largeBytes) this.#seen.set(text, true)
    else if (bytes <= smallBytes) this.#seen.set(text, false)
  }
}
