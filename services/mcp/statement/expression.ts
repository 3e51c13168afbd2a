/** Whether a text is exactly one expression, so that it can be put in parentheses in our own statement. */
import { parseStatement } from './parser.ts'
import { StatementRefusal } from './refusal.ts'

/**
 * Fields of a SELECT of one expression; anything that a text could add appears as another field, or as another value of
 * these.
 */
const plain = new Set(['targetList', 'limitOption', 'op'])

export async function isExpression(text: string): Promise<boolean> {
  try {
    const { node } = await parseStatement(`SELECT (\n${text}\n)`)
    const select = node.SelectStmt
    if (typeof select !== 'object' || select === null) return false
    if (!Object.keys(select).every(field => plain.has(field))) return false
    const { targetList, op } = select as {
      targetList?: readonly { ResTarget?: { name?: string; val?: object } }[]
      op?: string
    } // the form of libpg_query's JSON
    const [target] = targetList ?? []
    // `a, b` in parentheses is a row.
    const isRow = target?.ResTarget?.val !== undefined && 'RowExpr' in target.ResTarget.val
    return op === 'SETOP_NONE' && targetList?.length === 1 && target?.ResTarget?.name === undefined && !isRow
  } catch (error) {
    if (error instanceof StatementRefusal && error.kind !== 'too large') return false
    throw error
  }
}
