/**
 * The complete text of a query result: the number of rows, the rows as data, and how to continue. It stays within the
 * token limit of one result, as far as an estimate can tell.
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
  /** Whether there are further rows. */
  readonly hasMore: boolean
  /** Whether rows are missing because together they were too large for this server. */
  readonly isTruncated: boolean
  /** Creates the cursor for a row; undefined if the statement must not run again. */
  readonly cursorAt: ((offset: number) => string) | undefined
  /** false: no cursor because there is no next page. */
  readonly mayHaveWritten?: boolean
}

/** Tokens for heads and hints, besides the fence and the names of the database and the columns. */
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

/** Columns by position: names belong to the database, and are in the header. */
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
