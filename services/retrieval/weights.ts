/** How much each vector column counts: what a title is near to says less than what the content is near to. */

type WeighedColumn = {
  readonly name: string
  readonly comment: string | undefined
  /** Lengths of the texts that it was made of, as far as they can be guessed. */
  readonly sampleLengths: readonly number[]
}

const titleLike = /title|name|heading|headline|subject|label|summary_line/i
const contentLike = /content|body|text|chunk|passage|document|article|description|abstract|message|comment/i
const weights = { title: 0.3, content: 0.7, other: 0.5 }
const shortText = 100
const longText = 500

function weightOf({ name, comment = '', sampleLengths }: WeighedColumn): number {
  for (const said of [name, comment]) {
    if (titleLike.test(said)) return weights.title
    if (contentLike.test(said)) return weights.content
  }
  if (sampleLengths.length === 0) return weights.other
  const middle = sampleLengths.toSorted((one, other) => one - other)[Math.floor(sampleLengths.length / 2)] ?? 0
  if (middle < shortText) return weights.title
  return middle > longText ? weights.content : weights.other
}

/** In the order of the columns; together 1. */
export function columnWeights(columns: readonly WeighedColumn[]): readonly number[] {
  const all = columns.map(weightOf)
  const sum = all.reduce((total, one) => total + one, 0)
  return all.map(one => one / sum)
}
