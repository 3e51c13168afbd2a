/** Checks that a text is exactly one expression, so that the server can put it in parentheses in its own statement. */
import { parseStatement } from './parser.ts'
import { StatementRefusal } from './refusal.ts'

/**
 * The fields of a SELECT of one expression. If the text adds something, the tree has another field, or another value of
 * these fields.
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
    } // libpg_query's JSON has this form
    const [target] = targetList ?? []
    // In parentheses, `a, b` is a row.
    const isRow = target?.ResTarget?.val !== undefined && 'RowExpr' in target.ResTarget.val
    return op === 'SETOP_NONE' && targetList?.length === 1 && target?.ResTarget?.name === undefined && !isRow
  } catch (error) {
    if (error instanceof StatementRefusal && error.kind !== 'too large') return false
    throw error
  }
}
