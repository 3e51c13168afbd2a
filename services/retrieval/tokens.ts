/** How many tokens a text takes, about: words by their length, digits by threes, other signs and what is beyond Latin script by the character. It rather says too many. */

/** A word with its digits, or one other sign. */
const unit = /[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu
/** Letters, or digits. */
const run = /[\p{L}\p{M}_]+|\p{N}+/gu
const beyondLatin = /[\u0250-\uffff]/
/** Longer ones are no words: keys, hashes, base64. */
const longestWord = 20

function cost(one: string): number {
  if (beyondLatin.test(one)) return one.length * 1.3
  if (one.length > longestWord) return one.length / 1.25
  let sum = 0
  for (const [part] of one.matchAll(run)) {
    sum += /^\d/.test(part) ? Math.ceil(part.length / 3) : Math.ceil(part.length / 4.5)
  }
  // What is neither is a sign.
  return Math.max(1, sum)
}

export function estimateTokens(text: string): number {
  let sum = 0
  for (const { 0: one, index } of text.matchAll(unit)) {
    // A digit takes no blank into its token, as a letter does.
    sum += cost(one) + (/^\d/.test(one) && /\s/.test(text[index - 1] ?? '') ? 1 : 0)
  }
  return Math.ceil(sum)
}
