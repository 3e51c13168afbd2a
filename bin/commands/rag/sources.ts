/** Formats retrieved documents as lines for a terminal. */

export type ShownSource = {
  readonly id: string
  readonly score: number
  readonly content: string
  /** The file from which the document was loaded; undefined if it is unknown. */
  readonly source: string | undefined
}

const widest = 100

/** Returns number, score, source and the start of the text on one line, without the document's control characters. */
export function sourceLine({ id, score, content, source }: ShownSource, number: number): string {
  const text = content.replaceAll(/[\s\p{C}]+/gu, ' ').trim()
  const beginning = text.length > widest ? `${text.slice(0, widest).trimEnd()}...` : text
  const from = (source ?? id).replaceAll(/\p{C}/gu, '?')
  return `${`${number}.`.padStart(3)} ${score.toFixed(4)}  ${from}: ${beginning}`
}
