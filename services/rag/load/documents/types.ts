/** Types for documents on their way from a file to the rows of a table. */

/** A structural part of a document. `offset`: the block's start, in characters of the file. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly text: string; readonly offset: number }
  | { readonly kind: 'text' | 'code' | 'table' | 'list'; readonly text: string; readonly offset: number }

/** The content of one row. One vector represents this part of a document. */
export type Passage = {
  /** The document's id: the id of a CSV row or a JSON line, otherwise the file's name. */
  readonly document: string
  /** The headings above the passage, outermost first, joined by ` > `. */
  readonly heading: string
  /** The passage's index within the file, from 0. */
  readonly ordinal: number
  /** The passage's start in the file: in characters, or in bytes of UTF-8 for CSV and JSON lines. */
  readonly position: number
  readonly content: string
  /** Identifies the passage within its file. Changes of other passages do not change the key. */
  readonly key: string
}
