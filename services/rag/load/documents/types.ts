/** Types of documents between a file and the rows of a table. */

/** A structural part of a document. `offset`: its start, in characters of the file. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly text: string; readonly offset: number }
  | { readonly kind: 'text' | 'code' | 'table' | 'list'; readonly text: string; readonly offset: number }

/** The content of one row: the part of a document that one vector represents. */
export type Passage = {
  /** The document's id: from a row of CSV or a line of JSON, else the file's name. */
  readonly document: string
  /** Headings above it, outermost first, joined by ` > `. */
  readonly heading: string
  /** Its index among the passages of the file, from 0. */
  readonly ordinal: number
  /** Its start in the file: in characters, in CSV and JSON lines in bytes of UTF-8. */
  readonly position: number
  readonly content: string
  /** Identifies it within its file, and is unchanged if other passages change. */
  readonly key: string
}
