/**
 * Decides whether the form of an UPDATE, DELETE or MERGE shows that its condition is true for every row, so that the
 * condition has no effect.
 */
import type { TreeNode } from './parser.ts'

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function stringsOf(list: unknown): string[] {
  return listOf(list).flatMap(item => {
    const text = isNode(item) && isNode(item.String) ? item.String.sval : undefined
    return typeof text === 'string' ? [text] : []
  })
}

/** The relations that names in a condition refer to. */
type Scope = {
  /** Names of the target relation. */
  readonly target: ReadonlySet<string>
  /** Whether an unqualified name may belong to a relation other than the target. */
  readonly hasOthers: boolean
}

/** The name or alias of a relation in FROM, or of a write's target. */
function nameOf(relation: TreeNode): string | undefined {
  const { relname, alias } = relation
  const aliasName = isNode(alias) ? alias.aliasname : undefined
  return typeof aliasName === 'string' ? aliasName : typeof relname === 'string' ? relname : undefined
}

/** Names in a FROM. A name hides the target's name if both are the same. */
function namesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(namesIn)
  if (!isNode(value)) return []
  const own = nameOf(value)
  return [
    ...(own === undefined ? [] : [own]),
    ...Object.entries(value).flatMap(([key, child]) => (key === 'SelectStmt' ? [] : namesIn(child))),
  ]
}

/** The select list of EXISTS does not matter, because it does not decide which rows exist. */
function queryReads(query: TreeNode, scope: Scope, isExists: boolean): boolean {
  const inner = namesIn(query.fromClause)
  const target = new Set([...scope.target].filter(name => !inner.includes(name)))
  const within = { target, hasOthers: scope.hasOthers || inner.length > 0 }
  const parts = Object.entries(query).filter(([key]) => !(isExists && key === 'targetList'))
  return parts.some(([, child]) => readsTarget(child, within))
}

/** Whether a value may differ between rows of the target. */
function readsTarget(value: unknown, scope: Scope): boolean {
  if (Array.isArray(value)) return value.some(item => readsTarget(item, scope))
  if (!isNode(value)) return false
  if ('CurrentOfExpr' in value) return true
  if (isNode(value.ColumnRef)) {
    const parts = stringsOf(value.ColumnRef.fields)
    const relation = parts.at(-2)
    return relation === undefined ? !scope.hasOthers : scope.target.has(relation)
  }
  if (isNode(value.SubLink)) {
    const { subLinkType, testexpr, subselect } = value.SubLink
    const query = isNode(subselect) && isNode(subselect.SelectStmt) ? subselect.SelectStmt : {}
    return readsTarget(testexpr, scope) || queryReads(query, scope, subLinkType === 'EXISTS_SUBLINK')
  }
  return Object.values(value).some(child => readsTarget(child, scope))
}

function withoutLocations(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutLocations)
  if (!isNode(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, child]) => (key === 'location' ? [] : [[key, withoutLocations(child)]])),
  )
}
const textOf = (value: unknown): string => JSON.stringify(withoutLocations(value)) ?? ''

const reflexive = new Set(['=', '>=', '<=', '~~', '@>', '<@'])
const anyText = /^(%+|\.\*|)$/

/** Detects `a = a`, `a LIKE '%'`, `a IN (SELECT a FROM the same table)`. */
function isTautology(node: TreeNode, scope: Scope): boolean {
  const { A_Expr: expression, SubLink: link } = node
  if (isNode(expression)) {
    const [operator = ''] = stringsOf(expression.name)
    const isSame = textOf(expression.lexpr) === textOf(expression.rexpr)
    if (isSame && (reflexive.has(operator) || expression.kind === 'AEXPR_NOT_DISTINCT')) return true
    const constant = isNode(expression.rexpr) && isNode(expression.rexpr.A_Const) ? expression.rexpr.A_Const : {}
    // The parse tree has no value for an empty text.
    const pattern = isNode(constant.sval) ? String(constant.sval.sval ?? '') : undefined
    return ['~~', '~~*', '~', '~*'].includes(operator) && pattern !== undefined && anyText.test(pattern)
  }
  if (!isNode(link) || link.subLinkType !== 'ANY_SUBLINK' || !isNode(link.subselect)) return false
  const query = isNode(link.subselect.SelectStmt) ? link.subselect.SelectStmt : {}
  const limits = ['whereClause', 'havingClause', 'groupClause', 'limitCount', 'limitOffset', 'larg']
  const [relation, ...others] = listOf(query.fromClause)
  const name = isNode(relation) && isNode(relation.RangeVar) ? nameOf(relation.RangeVar) : undefined
  return name !== undefined && others.length === 0 && scope.target.has(name) && limits.every(key => !(key in query))
}

/** Detects `a IS NULL OR a IS NOT NULL`, and `a OR NOT a`. */
function isComplete(terms: readonly unknown[]): boolean {
  const texts = new Set(terms.map(textOf))
  return terms.some(term => {
    if (!isNode(term)) return false
    if (isNode(term.NullTest) && term.NullTest.nulltesttype === 'IS_NULL') {
      return texts.has(textOf({ NullTest: { ...term.NullTest, nulltesttype: 'IS_NOT_NULL' } }))
    }
    const negated = isNode(term.BoolExpr) && term.BoolExpr.boolop === 'NOT_EXPR' ? listOf(term.BoolExpr.args) : []
    return negated.some(inner => texts.has(textOf(inner)))
  })
}

function isAlwaysTrue(condition: unknown, scope: Scope): boolean {
  if (!isNode(condition) || !readsTarget(condition, scope) || isTautology(condition, scope)) return true
  const combined = condition.BoolExpr
  if (!isNode(combined)) return false
  const terms = listOf(combined.args)
  if (combined.boolop === 'OR_EXPR') return isComplete(terms) || terms.some(term => isAlwaysTrue(term, scope))
  return combined.boolop === 'AND_EXPR' && terms.every(term => isAlwaysTrue(term, scope))
}

function scopeOf(relation: unknown, others: unknown): Scope {
  const target = isNode(relation) ? nameOf(relation) : undefined
  return { target: new Set(target === undefined ? [] : [target]), hasOthers: namesIn(others).length > 0 }
}

/** For an UPDATE or DELETE. Ignores unqualified names that may belong to another relation. */
export const writesEveryRow = ({ relation, fromClause, usingClause, whereClause }: TreeNode): boolean =>
  isAlwaysTrue(whereClause, scopeOf(relation, [fromClause, usingClause]))

/** For a MERGE: whether one of its clauses updates or deletes without a condition that selects rows. */
export function mergesEveryRow({ relation, sourceRelation, joinCondition, mergeWhenClauses }: TreeNode): boolean {
  const scope = scopeOf(relation, [sourceRelation])
  return listOf(mergeWhenClauses).some(item => {
    const clause = isNode(item) && isNode(item.MergeWhenClause) ? item.MergeWhenClause : {}
    if (clause.commandType !== 'CMD_UPDATE' && clause.commandType !== 'CMD_DELETE') return false
    const isJoined = clause.matchKind === 'MERGE_WHEN_MATCHED' && !isAlwaysTrue(joinCondition, scope)
    return !isJoined && isAlwaysTrue(clause.condition, scope)
  })
}

/** For an INSERT: whether it updates the rows that it reads from its own target. */
export function upsertsEveryRow({ relation, selectStmt, onConflictClause }: TreeNode): boolean {
  if (!isNode(onConflictClause) || onConflictClause.action !== 'ONCONFLICT_UPDATE' || !isNode(relation)) return false
  const reads = (value: unknown): boolean =>
    Array.isArray(value)
      ? value.some(reads)
      : isNode(value) && (value.relname === relation.relname || Object.values(value).some(reads))
  return reads(selectStmt)
}
