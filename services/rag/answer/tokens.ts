/**
 * Counts tokens with the byte pairs of a real tokenizer. `cl100k_base` takes 25 MiB of memory where `o200k_base` takes
 * 40; both count English alike, and it counts more for other scripts, so that a text that fits by its count fits a
 * newer model as well. It is loaded at the first prompt.
 */

export type CountTokens = (text: string) => number

/**
 * Merging takes time quadratic in the length of a run of one character class, so runs are split. Natural text rarely
 * has one of this length.
 */
const longest = 200
const longRun = new RegExp(`\\p{L}{${longest}}|[^\\s\\p{L}\\p{N}]{${longest}}|\\s{${longest}}`, 'gu')

const isSpace = (code: number): boolean => code <= 0x20
const isInk = (code: number): boolean => code > 0x20 && code < 0x7f

/** How many characters around a position are in no such class, up to a limit. */
function runAround(text: string, at: number, ends: (code: number) => boolean): number {
  let [from, to] = [at, at]
  while (from > 0 && at - from < longest && !ends(text.charCodeAt(from - 1))) from -= 1
  while (to < text.length && to - at < longest && !ends(text.charCodeAt(to))) to += 1
  return to - from
}

/**
 * Whether there may be such a run. A run covers one of the sampled positions; characters beyond ASCII may be in any
 * class.
 */
function mayHaveLongRun(text: string): boolean {
  for (let at = longest / 2; at < text.length; at += longest / 2) {
    if (runAround(text, at, isSpace) >= longest || runAround(text, at, isInk) >= longest) return true
  }
  return false
}
/** How many words the tokenizer caches; its own limit is 100,000. */
const remembered = 5_000
/** `<|endoftext|>` and similar are treated as text. */
const plainText = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() }

async function load(): Promise<CountTokens> {
  const { countTokens, setMergeCacheSize } = await import('gpt-tokenizer/encoding/cl100k_base')
  setMergeCacheSize(remembered)
  return text => {
    if (!mayHaveLongRun(text)) return countTokens(text, plainText)
    let [sum, from] = [0, 0]
    for (const { 0: run, index } of text.matchAll(longRun)) {
      const end = index + run.length
      sum += countTokens(text.slice(from, end), plainText)
      from = end
    }
    return sum + countTokens(text.slice(from), plainText)
  }
}

let loading: Promise<CountTokens> | undefined

export function tokenCounter(): Promise<CountTokens> {
  loading ??= load()
  return loading
}
