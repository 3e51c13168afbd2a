/** Which rows of a statement a call gets, and how Postgres is to be asked for no more than these. Pure. */
import type { JudgedStatement } from '../database/access.ts'
import type { Judged } from '../statement/judgements.ts'

export type Page = { readonly limit: number; readonly offset: number }

type Paged = {
  readonly statement: JudgedStatement
  /** Rows that come before those that are wanted. */
  readonly skip: number
  /** Characters before the caller's statement in what is sent. */
  readonly prefix: number
}

const declaration = 'DECLARE espalier_page NO SCROLL CURSOR FOR\n'

/** One row more than is shown says whether there are more. */
export function pageOf(
  { text, class: kind, hasLimit }: Judged['statement'],
  mode: 'read' | 'write',
  { limit, offset }: Page,
): Paged {
  const one = { mode, written: text } as const
  // All of a write runs, whatever of it is shown; a list of settings or the lines of a plan are few.
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
