/**
 * What a statement is and all that it names, from its tree. Where a node may name a function without calling one by its syntax (`t.f`, a cast, an operator), its name is taken as well: what is
 * listed may be more than what runs, never less.
 */
import { classOf, type StatementClass } from './classes.ts'
import { mergesEveryRow, upsertsEveryRow, writesEveryRow } from './conditions.ts'
import { isOrdinary } from './ordinary.ts'
import type { ParsedStatement, TreeNode } from './parser.ts'
import { StatementRefusal } from './refusal.ts'

export type Name = { readonly schema: string | undefined; readonly name: string }
export type Call = Name & {
  /** undefined: not known. */
  readonly arguments: number | undefined
}

type Attribute = {
  readonly name: string
  /** Whether what stands before it may be a value of any type; otherwise it is a row. */
  readonly isOfAny: boolean
}

export type Analysis = {
  readonly class: StatementClass
  /** As Postgres calls it: SELECT, DROP TABLE. */
  readonly tag: string
  readonly text: string
  readonly tree: TreeNode
  /** Texts of the functions that it creates or runs as DO. */
  readonly bodies: readonly string[]
  readonly calls: readonly Call[]
  /** That are written as columns of a row, and may be functions of it, or casts. */
  readonly attributes: readonly Attribute[]
  readonly operators: readonly Name[]
  readonly types: readonly Name[]
  readonly relations: readonly Name[]
  /** Settings that SHOW and current_setting read, `all` being all of them; undefined: one whose name is computed. */
  readonly settings: readonly (string | undefined)[]
  /** Whether an INSERT, UPDATE, DELETE or MERGE is anywhere in it. */
  readonly hasWrite: boolean
  readonly hasInto: boolean
  readonly hasLock: boolean
  /** Whether an UPDATE or a DELETE in it touches every row. */
  readonly hasUnfiltered: boolean
  /** Of a definition: whether it only adds something, or can be taken back. */
  readonly isOrdinary: boolean
  /** Whether the outermost SELECT says how many rows it wants, or from which on. */
  readonly hasLimit: boolean
}

/** Postgres's own limits are near; no statement that a person reads comes close. */
const maximumDepth = 500

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The strings of a list of String nodes, as names are written. */
const strings = (list: unknown): string[] =>
  Array.isArray(list)
    ? list.flatMap(item => {
        const held = isNode(item) && isNode(item.String) ? item.String.sval : undefined
        return typeof held === 'string' ? [held] : []
      })
    : []

function nameOf(list: unknown): Name | undefined {
  const parts = strings(list)
  const name = parts.at(-1)
  return name === undefined ? undefined : { schema: parts.at(-2), name }
}

/** `of`: the name before it; undefined where that is an expression. */
type FoundAttribute = { readonly of: string | undefined; readonly name: string }

type Found = {
  calls: Call[]
  attributes: FoundAttribute[]
  /** Names under which functions stand in FROM: by itself such a name is a value, of whatever type the function returns. */
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

/** Stands for a name that Postgres makes up. */
const anyName = '*'

/** What a function in FROM is called that is given no name. */
function namesOfSource(functions: unknown): readonly string[] {
  const [listed] = Array.isArray(functions) ? functions : []
  const items = isNode(listed) && isNode(listed.List) ? listed.List.items : undefined
  const [first] = Array.isArray(items) ? items : []
  const call = isNode(first) ? first.FuncCall : undefined
  return [(isNode(call) ? nameOf(call.funcname)?.name : undefined) ?? anyName]
}

const readsSetting = 'current_setting'

/** A text that is written out, with or without its type. */
function literalOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined
  if (isNode(value.TypeCast)) return literalOf(value.TypeCast.arg)
  const text = isNode(value.A_Const) ? value.A_Const.sval : undefined
  return isNode(text) && typeof text.sval === 'string' ? text.sval : undefined
}

/** What each kind of node adds, by its name. */
const visitors: { readonly [kind: string]: (node: TreeNode, found: Found) => void } = {
  FuncCall: (node, { calls, settings }) => {
    const name = nameOf(node.funcname)
    const length = (list: unknown) => (Array.isArray(list) ? list.length : 0)
    const given = length(node.args) + (node.agg_within_group === true ? length(node.agg_order) : 0)
    if (name !== undefined) calls.push({ ...name, arguments: node.func_variadic === true ? undefined : given })
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
    const given = isNode(alias) ? alias.aliasname : undefined
    if (typeof given === 'string') sources.add(given)
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

/** Fields that hold a node without saying which kind it is. */
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
  for (const [key, held] of Object.entries(value)) {
    if (typeof held !== 'object' || held === null) continue
    if (isNode(held)) visit(kinds[key] ?? key, held, found)
    walk(held, found, depth + 1)
  }
}

/** @throws StatementRefusal where it is nested too deeply */
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
  // `'x'.f` is f('x').
  if (attributes.some(({ name, isOfAny }) => isOfAny && name === readsSetting)) found.settings.push(undefined)
  const select = isNode(node.SelectStmt) ? node.SelectStmt : {}
  const hasLimit = select.limitCount !== undefined || select.limitOffset !== undefined
  const { sources, ...rest } = found
  return { ...classOf(node), text, tree: node, isOrdinary: isOrdinary(node), ...rest, attributes, hasLimit }
}

/** Names of the functions that it calls by their syntax. */
export const calledNames = ({ calls }: Analysis): readonly string[] => calls.map(({ name }) => name)
