/**
 * Computes an upper bound of a text's tokens in `cl100k_base` without the tokenizer. A token has at least one byte.
 * Where the tokenizer certainly merges letters, the bound is lower.
 */

/**
 * Every pair of these letters, and a space before any letter, is one token of `cl100k_base`. So two of them are never
 * adjacent separate tokens: of three such bytes, at least two form one token. A rare letter counts as a separate token.
 */
const merging = 'abcdefghilmnoprstu'
const doesMerge = Array.from({ length: 0x80 }, (_, code) => merging.includes(String.fromCharCode(code)))
const [apostrophe, space] = [0x27, 0x20]
/** The counter may split a longer run before it counts. */
const longestRun = 60

const ofRun = (length: number): number => (length > longestRun ? length : Math.ceil((2 * length) / 3))

function ofCharacter(code: number): number {
  // The tokenizer splits a word after `'s` and similar endings.
  if (code < 0x80) return code === apostrophe ? 2 : 1
  return code < 0x800 ? 2 : 3
}

export function mostTokens(text: string): number {
  let [sum, run] = [0, 0]
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (doesMerge[code] === true) {
      run += 1
      continue
    }
    sum += ofRun(run)
    run = code === space && doesMerge[text.charCodeAt(at + 1)] === true ? 1 : 0
    if (run === 0) sum += ofCharacter(code)
  }
  return sum + ofRun(run)
}
