/**
 * Reads the kind of a statement and all names in it from its parse tree. A node may name a function without call syntax
 * (`t.f`, a cast, an operator). Such names are included, so the list may contain more functions than run, but never
 * fewer.
 */
import { classOf, type StatementClass } from './classes.ts'
import { mergesEveryRow, upsertsEveryRow, writesEveryRow } from './conditions.ts'
import { isOrdinary } from './ordinary.ts'
import type { ParsedStatement, TreeNode } from './parser.ts'
import { StatementRefusal } from './refusal.ts'

export type Name = { readonly schema: string | undefined; readonly name: string }
export type Call = Name & {
  /** The number of arguments; undefined: unknown. */
  readonly arguments: number | undefined
}

type Attribute = {
  readonly name: string
  /** Whether the expression before the name may have any type. Otherwise, it is a row. */
  readonly isOfAny: boolean
}

export type Analysis = {
  readonly class: StatementClass
  /** The command tag of Postgres: SELECT, DROP TABLE. */
  readonly tag: string
  readonly text: string
  readonly tree: TreeNode
  /** Bodies of functions that the statement creates, or runs as DO. */
  readonly bodies: readonly string[]
  readonly calls: readonly Call[]
  /** Names in column syntax. Such a name may be a column, a function of the row, or a cast. */
  readonly attributes: readonly Attribute[]
  readonly operators: readonly Name[]
  readonly types: readonly Name[]
  readonly relations: readonly Name[]
  /** Settings that SHOW and current_setting read; `all` means all settings. undefined: the name is computed. */
  readonly settings: readonly (string | undefined)[]
  /** Whether the statement contains an INSERT, UPDATE, DELETE or MERGE. */
  readonly hasWrite: boolean
  readonly hasInto: boolean
  readonly hasLock: boolean
  /** Whether an UPDATE or DELETE in the statement affects every row. */
  readonly hasUnfiltered: boolean
  /** Only for definitions: whether the statement only adds something, or can be undone. */
  readonly isOrdinary: boolean
  /** Whether the outermost SELECT has a LIMIT, OFFSET or FETCH. */
  readonly hasLimit: boolean
}

/** This is close to Postgres's own limits. Statements that people write are far below. */
const maximumDepth = 500

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The strings of a list of String nodes, which form a name. */
const strings = (list: unknown): string[] =>
  Array.isArray(list)
    ? list.flatMap(item => {
        const text = isNode(item) && isNode(item.String) ? item.String.sval : undefined
        return typeof text === 'string' ? [text] : []
      })
    : []

function nameOf(list: unknown): Name | undefined {
  const parts = strings(list)
  const name = parts.at(-1)
  return name === undefined ? undefined : { schema: parts.at(-2), name }
}

/** `of`: the name before the dot; undefined for another expression. */
type FoundAttribute = { readonly of: string | undefined; readonly name: string }

type Found = {
  calls: Call[]
  attributes: FoundAttribute[]
  /** Names of functions in FROM. Such a name alone is a value of the function's type. */
  sources: Set<string>
  operators: Name[]
  types: Name[]
  relations: Name[]
  settings: (string | undefined)[]
  bodies: string[]
  hasWrite: boolean
  hasInto: boolean
  hasLock: boolean
  hasUnfiltered: boolean
}

const push = (list: Name[], name: Name | undefined): void => {
  if (name !== undefined) list.push(name)
}

/** Represents a name that Postgres generates. */
const anyName = '*'

/** The default name of a function in FROM. */
function namesOfSource(functions: unknown): readonly string[] {
  const [listed] = Array.isArray(functions) ? functions : []
  const items = isNode(listed) && isNode(listed.List) ? listed.List.items : undefined
  const [first] = Array.isArray(items) ? items : []
  const call = isNode(first) ? first.FuncCall : undefined
  return [(isNode(call) ? nameOf(call.funcname)?.name : undefined) ?? anyName]
}

const readsSetting = 'current_setting'

/** A literal text, with or without its type. */
function literalOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined
  if (isNode(value.TypeCast)) return literalOf(value.TypeCast.arg)
  const text = isNode(value.A_Const) ? value.A_Const.sval : undefined
  return isNode(text) && typeof text.sval === 'string' ? text.sval : undefined
}

/** By kind of node: adds the names in a node to `found`. */
const visitors: { readonly [kind: string]: (node: TreeNode, found: Found) => void } = {
  FuncCall: (node, { calls, settings }) => {
    const name = nameOf(node.funcname)
    const length = (list: unknown) => (Array.isArray(list) ? list.length : 0)
    const argumentCount = length(node.args) + (node.agg_within_group === true ? length(node.agg_order) : 0)
    if (name !== undefined) calls.push({ ...name, arguments: node.func_variadic === true ? undefined : argumentCount })
    if (name?.name === readsSetting) settings.push(literalOf(Array.isArray(node.args) ? node.args[0] : undefined))
  },
  DefElem: ({ defname, arg }, { bodies }) => {
    if (defname !== 'as' || !isNode(arg)) return
    bodies.push(...strings(isNode(arg.List) ? arg.List.items : [arg]))
  },
  VariableShowStmt: ({ name }, { settings }) => void settings.push(typeof name === 'string' ? name : undefined),
  A_Expr: (node, { operators }) => push(operators, nameOf(node.name)),
  SubLink: (node, { operators }) => push(operators, nameOf(node.operName)),
  SortBy: (node, { operators }) => push(operators, nameOf(node.useOp)),
  TypeName: (node, { types }) => push(types, nameOf(node.names)),
  ColumnRef: (node, { attributes }) => {
    const parts = strings(node.fields)
    const last = parts.at(-1)
    if (parts.length > 1 && last !== undefined) attributes.push({ of: parts.at(-2), name: last })
  },
  A_Indirection: (node, { attributes }) =>
    void attributes.push(...strings(node.indirection).map(name => ({ of: undefined, name }))),
  RangeFunction: ({ alias, functions }, { sources }) => {
    const name = isNode(alias) ? alias.aliasname : undefined
    if (typeof name === 'string') sources.add(name)
    else for (const name of namesOfSource(functions)) sources.add(name)
  },
  RangeVar: (node, found) => {
    const { schemaname, relname } = node
    if (typeof relname !== 'string') return
    found.relations.push({ schema: typeof schemaname === 'string' ? schemaname : undefined, name: relname })
  },
  SelectStmt: (node, found) => {
    if (node.intoClause !== undefined) found.hasInto = true
    if (node.lockingClause !== undefined) found.hasLock = true
  },
  InsertStmt: (node, found) => {
    found.hasWrite = true
    found.hasUnfiltered ||= upsertsEveryRow(node)
  },
  MergeStmt: (node, found) => {
    found.hasWrite = true
    found.hasUnfiltered ||= mergesEveryRow(node)
  },
  UpdateStmt: (node, found) => {
    found.hasWrite = true
    found.hasUnfiltered ||= writesEveryRow(node)
  },
  DeleteStmt: (node, found) => {
    found.hasWrite = true
    found.hasUnfiltered ||= writesEveryRow(node)
  },
}

/** Fields whose node does not name its kind. */
const kinds: { readonly [field: string]: string } = {
  relation: 'RangeVar',
  sourceRelation: 'RangeVar',
  typeName: 'TypeName',
  ofTypename: 'TypeName',
  funccall: 'FuncCall',
  larg: 'SelectStmt',
  rarg: 'SelectStmt',
  rel: 'RangeVar',
}

function visit(kind: string, node: TreeNode, found: Found): void {
  if (Object.hasOwn(visitors, kind)) visitors[kind]?.(node, found)
}

function walk(value: unknown, found: Found, depth: number): void {
  if (depth > maximumDepth) {
    throw new StatementRefusal(
      'too large',
      'The statement is nested too deeply, or is a chain of too many terms. Write it in simpler parts.',
    )
  }
  if (Array.isArray(value)) {
    for (const item of value) walk(item, found, depth)
    return
  }
  if (!isNode(value)) return
  for (const [key, child] of Object.entries(value)) {
    if (typeof child !== 'object' || child === null) continue
    if (isNode(child)) visit(kinds[key] ?? key, child, found)
    walk(child, found, depth + 1)
  }
}

/** @throws StatementRefusal if the statement is nested too deeply */
export function analyse({ node, text }: ParsedStatement): Analysis {
  const found: Found = {
    calls: [],
    attributes: [],
    sources: new Set(),
    operators: [],
    types: [],
    relations: [],
    settings: [],
    bodies: [],
    hasWrite: false,
    hasInto: false,
    hasLock: false,
    hasUnfiltered: false,
  }
  walk(node, found, 0)
  const attributes = found.attributes.map(({ of, name }) => ({
    name,
    isOfAny: of === undefined || found.sources.has(of) || found.sources.has(anyName),
  }))
  // `'x'.current_setting` means current_setting('x').
  if (attributes.some(({ name, isOfAny }) => isOfAny && name === readsSetting)) found.settings.push(undefined)
  const select = isNode(node.SelectStmt) ? node.SelectStmt : {}
  const hasLimit = select.limitCount !== undefined || select.limitOffset !== undefined
  const { sources, ...rest } = found
  return { ...classOf(node), text, tree: node, isOrdinary: isOrdinary(node), ...rest, attributes, hasLimit }
}

/** Names of functions that the statement calls with call syntax. */
export const calledNames = ({ calls }: Analysis): readonly string[] => calls.map(({ name }) => name)
