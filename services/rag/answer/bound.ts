/** How many tokens of `cl100k_base` a text has at most, without the tokenizer: at least one byte each, and fewer where it is sure to merge letters. Pure. */

/**
 * Every two of these letters, and a space before any letter, are one token of `cl100k_base`. So no two of them are left apart side by side: of three such bytes one at least is merged. A rare letter
 * counts as a token of its own.
 */
const merging = 'abcdefghilmnoprstu'
const doesMerge = Array.from({ length: 0x80 }, (_, code) => merging.includes(String.fromCharCode(code)))
const [apostrophe, space] = [0x27, 0x20]
/** What is longer may be cut before it is counted. */
const longestRun = 60

const ofRun = (length: number): number => (length > longestRun ? length : Math.ceil((2 * length) / 3))

function ofCharacter(code: number): number {
  // A word is cut behind `'s` and the like.
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
