/** Weights of vector columns: a match in a title counts less than a match in the content. */

type WeighedColumn = {
  readonly name: string
  readonly comment: string | undefined
  /** Estimated lengths of the texts that were embedded. */
  readonly sampleLengths: readonly number[]
}

const titleLike = /title|name|heading|headline|subject|label|summary_line/i
const contentLike = /content|body|text|chunk|passage|document|article|description|abstract|message|comment/i
const weights = { title: 0.3, content: 0.7, other: 0.5 }
const shortText = 100
const longText = 500

function weightOf({ name, comment = '', sampleLengths }: WeighedColumn): number {
  for (const text of [name, comment]) {
    if (titleLike.test(text)) return weights.title
    if (contentLike.test(text)) return weights.content
  }
  if (sampleLengths.length === 0) return weights.other
  const middle = sampleLengths.toSorted((one, other) => one - other)[Math.floor(sampleLengths.length / 2)] ?? 0
  if (middle < shortText) return weights.title
  return middle > longText ? weights.content : weights.other
}

/** Weights in the order of the columns. Their sum is 1. */
export function columnWeights(columns: readonly WeighedColumn[]): readonly number[] {
  const all = columns.map(weightOf)
  const sum = all.reduce((total, one) => total + one, 0)
  return all.map(one => one / sum)
}
