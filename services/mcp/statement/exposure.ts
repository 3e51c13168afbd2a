/**
 * Whether a statement shows a guarded column of the catalogue, from its tree. A relation that has one may be read by the names of its other columns; whatever could stand for the whole row is refused:
 * `*`, the relation's name as a value, a list of aliases, NATURAL.
 */
import type { TreeNode } from './parser.ts'

/** A relation that the statement names. */
export type Guard = {
  readonly name: string
  readonly hidden: readonly string[]
  /** All that may stand behind its name and a dot. */
  readonly columns: ReadonlySet<string>
}

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const identifier = (item: unknown): string | undefined => {
  const text = isNode(item) && isNode(item.String) ? item.String.sval : undefined
  return typeof text === 'string' ? text : undefined
}
const isStar = (item: unknown): boolean => isNode(item) && 'A_Star' in item

/** Kinds of nodes that have a FROM of their own. */
const queries = new Set(['SelectStmt', 'InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt'])
/** The two sides of a UNION are written without their kind; those of a join are not. */
const isQuery = (key: string, held: TreeNode): boolean =>
  queries.has(key) || ((key === 'larg' || key === 'rarg') && 'op' in held)

type Scope = { hasGuarded: boolean; hasStar: boolean; hasJoinOfNames: boolean }

/** Undefined: it shows none. Otherwise what it does that may show one. */
export function exposureOf(tree: TreeNode, guards: readonly Guard[]): string | undefined {
  const guarded = new Map(guards.map(one => [one.name, one]))
  const hidden = new Set(guards.flatMap(one => one.hidden))
  /** Names under which guarded relations are spoken of, with the relation. */
  const names = new Map<string, Guard>()
  const columnLists: unknown[][] = []
  let found: string | undefined
  const refuse = (what: string) => {
    found ??= what
  }

  function visitRelation(node: TreeNode, scope: Scope): void {
    const relation = typeof node.relname === 'string' ? guarded.get(node.relname) : undefined
    if (relation === undefined) return
    scope.hasGuarded = true
    const alias = isNode(node.alias) ? node.alias : {}
    names.set(typeof alias.aliasname === 'string' ? alias.aliasname : relation.name, relation)
    if (alias.colnames !== undefined) refuse(`gives the columns of ${relation.name} other names`)
  }

  function visit(value: unknown, scope: Scope): void {
    if (Array.isArray(value)) {
      for (const item of value) visit(item, scope)
      return
    }
    if (!isNode(value)) return
    const name = identifier(value)
    if (name !== undefined && hidden.has(name)) refuse(`names ${name}`)
    if (typeof value.relname === 'string') visitRelation(value, scope)
    for (const [key, held] of Object.entries(value)) {
      if (typeof held !== 'object' || held === null) continue
      if (isNode(held) && isQuery(key, held)) {
        visitQuery(held)
        continue
      }
      if (key === 'ColumnRef' && isNode(held) && Array.isArray(held.fields)) {
        columnLists.push(held.fields)
        if (held.fields.length === 1 && isStar(held.fields[0])) scope.hasStar = true
      }
      if (key === 'JoinExpr' && isNode(held) && (held.isNatural === true || held.alias !== undefined))
        scope.hasJoinOfNames = true
      visit(held, scope)
    }
  }

  function visitQuery(node: TreeNode): void {
    const scope: Scope = { hasGuarded: false, hasStar: false, hasJoinOfNames: false }
    visit(node, scope)
    if (!scope.hasGuarded) return
    if (scope.hasStar) refuse('reads all columns by *')
    if (scope.hasJoinOfNames) refuse('joins by NATURAL, or gives a join a name')
  }

  visitQuery(tree)
  for (const fields of columnLists) {
    const last = fields.at(-1)
    const parts = fields.flatMap(field => identifier(field) ?? [])
    const whole = isStar(last) ? parts.at(-1) : parts.length === 1 ? parts[0] : undefined
    if (whole !== undefined && names.has(whole)) refuse(`reads whole rows of ${names.get(whole)?.name}`)
    const of = isStar(last) ? undefined : names.get(parts.at(-2) ?? '')
    const column = parts.at(-1)
    if (of !== undefined && column !== undefined && !of.columns.has(column))
      refuse(`reads ${column} of ${of.name}, which has no such column`)
  }
  return found
}
