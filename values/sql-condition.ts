/** Checks that a text is one SQL condition, by Postgres's own grammar, so that it is safe inside parentheses. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ParseResult } from 'libpg-query'

const longestText = 20_000
/** The limit for all conditions of one service together. The parser takes up to 6 ms for 1,000 characters (2 cores). */
export const mostConditionCharacters = 100_000
/** The fields of a SELECT with only a condition. */
const expectedKeys = new Set(['whereClause', 'limitOption', 'op'])

/** Returns why the text is not one condition, or undefined if it is one. */
export async function sqlConditionError(text: string): Promise<string | undefined> {
  if (text.length > longestText) return `has ${text.length} characters; at most ${longestText} are allowed`
  // The parser reads C strings in UTF-8.
  if (text.includes('\0') || !text.isWellFormed()) return 'has a character that Postgres does not accept'
  const { parse } = await import('libpg-query')
  // The parser is synchronous. Between two conditions of a service, other requests can be processed.
  await nextTurn()
  let parsed: ParseResult
  try {
    parsed = await parse(`SELECT WHERE ${text}`)
  } catch (error) {
    return `is not one SQL condition: ${error instanceof Error ? error.message : String(error)}`
  }
  const [statement, ...others] = parsed.stmts ?? []
  const node = statement?.stmt
  const select = node !== undefined && 'SelectStmt' in node ? node.SelectStmt : undefined
  // If a semicolon ends the statement, the parser reports a length.
  if (select === undefined || others.length > 0 || statement?.stmt_len !== undefined) return 'must be one SQL condition'
  if (select.op !== 'SETOP_NONE' || Object.keys(select).some(key => !expectedKeys.has(key))) {
    return 'must be a condition only, without another clause such as ORDER BY, LIMIT or UNION'
  }
  if (JSON.stringify(select).includes('{"ParamRef":')) return 'must not have parameters such as $1'
  return undefined
}
