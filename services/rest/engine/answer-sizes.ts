/**
 * Which statements have large answers, as far as has been seen. It decides in which form a statement is sent, never what it says: one value is made more quickly of few rows, and
 * row by row the first byte of many goes out earlier.
 */
import { SieveCache } from '../../cache/sieve.ts'

const largeBytes = 262_144
const smallBytes = 65_536
const maximumKept = 2_000
/** What is longer is guessed each time. */
const longestText = 4_000

export class AnswerSizes {
  readonly #seen = new SieveCache<boolean>(maximumKept)

  /** Whether the answer will be large; `guess` where nothing has been seen of the statement. */
  isLarge(text: string, guess: boolean): boolean {
    return (text.length <= longestText ? this.#seen.get(text) : undefined) ?? guess
  }

  /** What lies between small and large changes nothing. */
  learn(text: string, bytes: number): void {
    if (text.length > longestText) return
    if (bytes > largeBytes) this.#seen.set(text, true)
    else if (bytes <= smallBytes) this.#seen.set(text, false)
  }
}
