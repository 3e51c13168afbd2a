/**
 * The complete text of a query result: the number of rows, the rows as data, and how to continue. According to an
 * estimate, it stays within the token limit of one result.
 */
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { type PageRows, plainTable, tableText } from './table.ts'

type ResultRows = {
  readonly database: string
  readonly columns: readonly string[]
  readonly rows: PageRows
  /** The position of the first row. */
  readonly offset: number
  /** Whether there are more rows. */
  readonly hasMore: boolean
  /** Whether rows are missing because all rows together exceed this server's size limit. */
  readonly isTruncated: boolean
  /** Creates the cursor for a row. undefined if the statement must not run again. */
  readonly cursorAt: ((offset: number) => string) | undefined
  /**
   * Whether the statement may have written. Only tools without pages set this field. If it is undefined, a missing
   * cursor means that the statement may have written.
   */
  readonly mayHaveWritten?: boolean
}

/** Tokens for headings and hints. Does not include the fence and the names of the database and the columns. */
const wordTokens = 350

function headOf(rows: number, { offset, isTruncated, cursorAt, mayHaveWritten }: ResultRows, hasMore: boolean): string {
  const next = offset + rows
  if (hasMore && mayHaveWritten === false) return `Results (${rows} rows shown of more):`
  if (hasMore && cursorAt === undefined)
    return `Results (${rows} rows shown of more; the statement may have written, so do not run it again for the others):`
  if (offset > 0 && rows > 0) {
    return `Results (rows ${offset + 1}-${next}${hasMore ? `, more available - use offset=${next} for next page` : ''}):`
  }
  if (offset > 0) return `Results (0 rows from offset ${offset}${isTruncated ? ': too large' : ', there are no more'}):`
  return hasMore
    ? `Results (${rows} rows shown, more available - use offset=${next} for next page or count_rows for total):`
    : `Results (${rows} ${rows === 1 ? 'row' : 'rows'}):`
}

/** Names columns by position, because their names are data of the database. The header has the names. */
function shortenedHint(columnIndexes: readonly number[]): string {
  const listed = columnIndexes.slice(0, 10).map(index => index + 1)
  return `Shortened: column ${listed.join(', ')}${columnIndexes.length > listed.length ? ' and more' : ''}. To read a value whole: SELECT substring(column FROM 1 FOR 4000) for its row alone, then FROM 4001 and so on.`
}

export function resultText(result: ResultRows, maximumTokens: number): string {
  const { database, columns, rows, isTruncated, hasMore, cursorAt } = result
  const name = database.length > 100 ? `${database.slice(0, 100)}…` : database
  const tableTokens = Math.max(50, maximumTokens - fenceTokens - wordTokens - atMostTokens(name))
  const table = plainTable(columns, rows, tableTokens) ?? tableText(columns, rows.decoded(), tableTokens)
  const goesOn = (hasMore || isTruncated || table.rows < rows.length) && table.rows > 0
  const notes = [
    ...(table.rows < rows.length
      ? [
          `Only ${table.rows} of ${rows.length} rows fit into the limit of ${maximumTokens} tokens for one result; select fewer columns for more at once${cursorAt === undefined ? '' : ', or go on with the cursor below'}.`,
        ]
      : []),
    ...(table.columns < columns.length
      ? [`Only the first ${table.columns} of ${columns.length} columns fit; name those that matter in the SELECT.`]
      : []),
    ...(isTruncated
      ? ['The rows were too large to be read at once: select fewer columns, or substring(column FROM 1 FOR 1000).']
      : []),
    ...(table.shortened.length > 0 ? [shortenedHint(table.shortened)] : []),
    ...(goesOn && cursorAt ? [`Next page: the same query with cursor="${cursorAt(result.offset + table.rows)}".`] : []),
  ]
  const parts = [`Database: ${name}\n\n${headOf(table.rows, result, goesOn)}\n${fenced(table.text)}`, ...notes]
  return parts.join('\n')
}
