/** Documents on their way from a file to rows of a table. */

/** A part of a document that its format marks as one. `offset`: where it begins, in characters of the file. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly text: string; readonly offset: number }
  | { readonly kind: 'text' | 'code' | 'table' | 'list'; readonly text: string; readonly offset: number }

/** What becomes one row: as much of a document as one vector stands for. */
export type Passage = {
  /** The document's id: that of a row of CSV or a line of JSON, else the file's name. */
  readonly document: string
  /** Headings above it, outermost first, joined by ` > `. */
  readonly heading: string
  /** Its place among the passages of the file, from 0. */
  readonly ordinal: number
  /** Where it begins in the file: in characters, in CSV and JSON lines in bytes of UTF-8. */
  readonly position: number
  readonly content: string
  /** Names it within its file, and stays the same while passages elsewhere change. */
  readonly key: string
}
