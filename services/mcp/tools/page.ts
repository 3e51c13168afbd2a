/** Decides which rows of a statement a call returns, and builds the statements that fetch only these rows. */
import type { JudgedStatement } from '../database/access.ts'
import type { CheckedStatement } from '../statement/decisions.ts'

export type Page = { readonly limit: number; readonly offset: number }

type Paged = {
  readonly statement: JudgedStatement
  /** The number of rows to skip. */
  readonly skip: number
  /** The length of the text before the caller's statement. */
  readonly prefix: number
}

const declaration = 'DECLARE espalier_page NO SCROLL CURSOR FOR\n'

/** Fetches one more row than the limit, which shows whether there are more rows. */
export function pageOf(
  { text, class: kind, hasLimit }: CheckedStatement['statement'],
  mode: 'read' | 'write',
  { limit, offset }: Page,
): Paged {
  const one = { mode, written: text } as const
  // A write must run completely. The results of SHOW and EXPLAIN are short.
  if (mode === 'write' || kind !== 'select')
    return { statement: { ...one, text, maximumRows: 0 }, skip: offset, prefix: 0 }
  if (!hasLimit) {
    const rows = `\nLIMIT ${limit + 1}${offset > 0 ? ` OFFSET ${offset}` : ''}`
    return { statement: { ...one, text: text + rows, maximumRows: limit + 1 }, skip: 0, prefix: 0 }
  }
  if (offset === 0) return { statement: { ...one, text, maximumRows: limit + 1 }, skip: 0, prefix: 0 }
  const before = [declaration + text, `MOVE FORWARD ${offset} IN espalier_page`]
  return {
    statement: { ...one, before, text: `FETCH FORWARD ${limit + 1} FROM espalier_page`, maximumRows: limit + 1 },
    skip: 0,
    prefix: declaration.length,
  }
}
