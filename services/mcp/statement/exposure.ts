/**
 * Decides from the parse tree whether a statement shows a guarded column of the catalogue. A statement may read other
 * columns of such a relation by name. Everything that could mean the whole row is refused: `*`, the relation's name as
 * a value, column aliases, NATURAL.
 */
import type { TreeNode } from './parser.ts'

/** A relation in the statement with guarded columns. */
export type Guard = {
  readonly name: string
  readonly hidden: readonly string[]
  /** All names that may follow the relation's name and a dot. */
  readonly columns: ReadonlySet<string>
}

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const identifier = (item: unknown): string | undefined => {
  const text = isNode(item) && isNode(item.String) ? item.String.sval : undefined
  return typeof text === 'string' ? text : undefined
}
const isStar = (item: unknown): boolean => isNode(item) && 'A_Star' in item

/** Kinds of nodes with their own FROM. */
const queries = new Set(['SelectStmt', 'InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt'])
/** In the tree, the two sides of a UNION have no kind, but the two sides of a join have one. */
const isQuery = (key: string, child: TreeNode): boolean =>
  queries.has(key) || ((key === 'larg' || key === 'rarg') && 'op' in child)

type Scope = { hasGuarded: boolean; hasStar: boolean; hasJoinOfNames: boolean }

/** Returns the part of the statement that may show a guarded column, or undefined if there is none. */
export function exposureOf(tree: TreeNode, guards: readonly Guard[]): string | undefined {
  const guarded = new Map(guards.map(one => [one.name, one]))
  const hidden = new Set(guards.flatMap(one => one.hidden))
  /** Guarded relations by their names in the statement. */
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
    for (const [key, child] of Object.entries(value)) {
      if (typeof child !== 'object' || child === null) continue
      if (isNode(child) && isQuery(key, child)) {
        visitQuery(child)
        continue
      }
      if (key === 'ColumnRef' && isNode(child) && Array.isArray(child.fields)) {
        columnLists.push(child.fields)
        if (child.fields.length === 1 && isStar(child.fields[0])) scope.hasStar = true
      }
      if (key === 'JoinExpr' && isNode(child) && (child.isNatural === true || child.alias !== undefined))
        scope.hasJoinOfNames = true
      visit(child, scope)
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
    const name = isStar(last) ? parts.at(-1) : parts.length === 1 ? parts[0] : undefined
    if (name !== undefined && names.has(name)) refuse(`reads whole rows of ${names.get(name)?.name}`)
    const of = isStar(last) ? undefined : names.get(parts.at(-2) ?? '')
    const column = parts.at(-1)
    if (of !== undefined && column !== undefined && !of.columns.has(column))
      refuse(`reads ${column} of ${of.name}, which has no such column`)
  }
  return found
}
