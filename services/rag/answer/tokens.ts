/**
 * Counts tokens with a real tokenizer. `cl100k_base` takes 25 MiB of memory, `o200k_base` 40 MiB. Both count English
 * alike. For other scripts `cl100k_base` counts more, so a text that fits by its count also fits a newer model. The
 * tokenizer is loaded at the first prompt.
 */

export type CountTokens = (text: string) => number

/**
 * Runs of one character class are split, because merging takes time quadratic in a run's length. Natural text rarely
 * has such a long run.
 */
const longest = 200
const longRun = new RegExp(`\\p{L}{${longest}}|[^\\s\\p{L}\\p{N}]{${longest}}|\\s{${longest}}`, 'gu')

const isSpace = (code: number): boolean => code <= 0x20
const isInk = (code: number): boolean => code > 0x20 && code < 0x7f

/** The length of the run around a position, up to a limit. A character for which `ends` is true ends the run. */
function runAround(text: string, at: number, ends: (code: number) => boolean): number {
  let [from, to] = [at, at]
  while (from > 0 && at - from < longest && !ends(text.charCodeAt(from - 1))) from -= 1
  while (to < text.length && to - at < longest && !ends(text.charCodeAt(to))) to += 1
  return to - from
}

/**
 * Whether the text may have such a run. Every such run covers a sampled position. Characters beyond ASCII may belong to
 * any class.
 */
function mayHaveLongRun(text: string): boolean {
  for (let at = longest / 2; at < text.length; at += longest / 2) {
    if (runAround(text, at, isSpace) >= longest || runAround(text, at, isInk) >= longest) return true
  }
  return false
}
/** How many words the tokenizer caches. Its own default is 100,000. */
const remembered = 5_000
/** Treats `<|endoftext|>` and similar texts as ordinary text. */
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
