/** From what a query string selects to a tree of relations to read, with filters, order and ranges where they belong. */
import { RestError } from '../errors.ts'
import { capped, intersection, queryRange, unlimited } from '../parse/range.ts'
import type {
  At,
  Field,
  Filter,
  LogicTree,
  OrderTerm,
  ParsedQuery,
  Range,
  SelectField,
  SelectItem,
  SelectRelation,
} from '../parse/types.ts'
import { type QualifiedName, type Relationship, representationKey, type SchemaCache } from '../schema-cache/types.ts'
import { findRelationship, isToOne } from './relationship.ts'
import type { Condition, EmbeddedNode, Join, PlannedColumn, PlannedField, PlannedOrder, ReadNode } from './types.ts'

/** What the rows are turned into; it decides which conversions of domains apply. */
export type Output = 'json' | 'text'

export type ReadContext = {
  readonly cache: SchemaCache
  readonly output: Output
  readonly maximumRows: number | undefined
  readonly aggregatesEnabled: boolean
}

/** What the query string says of one node and, by name, of those below it. */
type Said = {
  filters: readonly At<Filter>[]
  logic: readonly At<LogicTree>[]
  order: readonly At<readonly OrderTerm[]>[]
  limits: readonly At<number>[]
  offsets: readonly At<number>[]
}

const said = (query: ParsedQuery): Said => ({
  filters: query.filters,
  logic: query.logic,
  order: query.order,
  limits: query.limits,
  offsets: query.offsets,
})

const here = <T>(list: readonly At<T>[]): T[] => list.flatMap(({ path, value }) => (path.length === 0 ? [value] : []))
const below = <T>(list: readonly At<T>[], names: ReadonlySet<string>): At<T>[] =>
  list.flatMap(({ path, value }) => (names.has(path[0] ?? '') ? [{ path: path.slice(1), value }] : []))

const saidBelow = (all: Said, name: ReadonlySet<string>): Said => ({
  filters: below(all.filters, name),
  logic: below(all.logic, name),
  order: below(all.order, name),
  limits: below(all.limits, name),
  offsets: below(all.offsets, name),
})

const notEmbedded = (name: string) =>
  new RestError({
    status: 400,
    code: 'RST108',
    message: `'${name}' is not an embedded resource in this request`,
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  })

const childName = ({ alias, name }: SelectRelation) => alias ?? name

/** What paths call an embedding: its alias, and the name of its relation unless that is what another goes by. */
function pathNames(child: SelectRelation, children: readonly SelectRelation[]): Set<string> {
  const names = new Set([childName(child)])
  const isTaken = children.some(
    other => other !== child && (childName(other) === child.name || other.name === child.name),
  )
  return isTaken ? names : names.add(child.name)
}

/** Whatever is said of a path has to be said of something that is embedded. */
function checkPaths(all: Said, children: readonly SelectRelation[]): void {
  const names = new Set(children.flatMap(child => [...pathNames(child, children)]))
  for (const list of [all.filters, all.logic, all.order, all.limits, all.offsets]) {
    for (const { path } of list) {
      const [first] = path
      if (first !== undefined && !names.has(first)) throw notEmbedded(first)
    }
  }
}

/** Resolves fields of a relation. */
export function fieldResolver(
  cache: SchemaCache,
  relation: QualifiedName,
  output: Output,
): (field: Field) => PlannedField {
  const columns = cache.tables.get(relation.schema)?.get(relation.name)?.columns
  return ({ name, path }) => {
    const column = columns?.get(name)
    const type = column?.type
    const representation = (source: string, target: string) =>
      cache.representations.get(representationKey(source, target))?.function
    return {
      name,
      path,
      type,
      baseType: column?.baseType,
      toOutput: type === undefined || path.length > 0 ? undefined : representation(type, output),
      fromText: type === undefined || path.length > 0 ? undefined : representation('text', type),
    }
  }
}

/** Names (NAMEDATALEN in the manual, section 4.1.1). */
const maximumAliasBytes = 63

/** Each is a join more that Postgres has to plan. */
const maximumEmbeddings = 100

/** Plans one relation and all that is embedded in it, under aliases of its own. */
class ReadPlanner {
  readonly #context: ReadContext
  #embeddings = 0
  readonly #aliases = new Set<string>()

  constructor(context: ReadContext) {
    this.#context = context
  }

  /** A name of its own: Postgres cuts names to 63 bytes, so two long ones that differ at their ends would be one. */
  #alias(wanted: string): string {
    const isShort = Buffer.byteLength(wanted) <= maximumAliasBytes && !wanted.startsWith('rst_')
    const alias = isShort && !this.#aliases.has(wanted) ? wanted : `rst_relation_${this.#aliases.size}`
    this.#aliases.add(alias)
    return alias
  }

  node(
    relation: QualifiedName,
    select: readonly SelectItem[],
    all: Said,
    { headerRange, spread }: { headerRange: Range; spread: boolean },
  ): ReadNode {
    const alias = this.#alias(relation.name)
    const resolve = fieldResolver(this.#context.cache, relation, this.#context.output)
    const relations = select.filter(item => item.kind === 'relation')
    checkPaths(all, relations)
    const children = new Map<SelectRelation, EmbeddedNode>()
    for (const item of relations)
      children.set(item, this.#embedded(relation, item, saidBelow(all, pathNames(item, relations))))
    const embeddings = [...children.values()]
    const conditions = [
      ...here(all.filters).map(filter => condition({ kind: 'filter', filter }, resolve, embeddings)),
      ...here(all.logic).map(tree => condition(tree, resolve, embeddings)),
    ]
    const order =
      here(all.order)
        .at(-1)
        ?.map(term => plannedOrder(relation, term, resolve, children, this.#context)) ?? []
    const asked = intersection(queryRange(here(all.limits).at(-1), here(all.offsets).at(-1)), headerRange)
    return {
      relation,
      alias,
      select: select.flatMap((item): (PlannedColumn | EmbeddedNode)[] => {
        if (item.kind === 'relation') return embeddings.filter(one => one === children.get(item))
        return this.#columns(relation, item, resolve, spread ? undefined : select)
      }),
      conditions,
      order,
      range: capped(asked, this.#context.maximumRows),
    }
  }

  /** One column, or where a star would hide a conversion or a group, each of the relation's. */
  #columns(
    relation: QualifiedName,
    item: SelectField,
    resolve: (field: Field) => PlannedField,
    /** Absent in a spread: its columns become the parent's, by name. */
    siblings: readonly SelectItem[] | undefined,
  ): PlannedColumn[] {
    if (item.aggregate !== undefined && !this.#context.aggregatesEnabled) {
      throw new RestError({ status: 400, code: 'RST123', message: 'Use of aggregate functions is not allowed' })
    }
    const isStar = item.field.name === '*' && item.aggregate === undefined
    if (isStar) {
      const columns = this.#context.cache.tables.get(relation.schema)?.get(relation.name)?.columns
      const each = [...(columns?.keys() ?? [])].map(name => resolve({ name, path: [] }))
      const isNamed =
        siblings === undefined ||
        siblings.some(one => (one.kind === 'relation' ? one.spread : one.aggregate !== undefined))
      if (each.length > 0 && (isNamed || each.some(field => field.toOutput !== undefined))) {
        return each.map(field => ({ kind: 'column', field, alias: undefined, cast: undefined, aggregate: undefined }))
      }
    }
    const { alias, cast, aggregate } = item
    return [{ kind: 'column', field: resolve(item.field), alias, cast, aggregate }]
  }

  #embedded(source: QualifiedName, item: SelectRelation, all: Said): EmbeddedNode {
    if (++this.#embeddings > maximumEmbeddings) {
      const message = `A request embeds at most ${maximumEmbeddings} relations`
      throw new RestError({ status: 400, code: 'RST100', message })
    }
    const { cache } = this.#context
    const relationship = findRelationship(cache, source, item.name, item.hint)
    const toOne = isToOne(relationship)
    if (item.spread && !toOne && hasAggregates(item.select)) {
      throw new RestError({
        status: 400,
        code: 'RST127',
        message: 'Feature not implemented',
        details: 'Aggregates are not implemented for one-to-many or many-to-many spreads.',
      })
    }
    const planned = this.node(relationship.target, item.select, all, { headerRange: unlimited, spread: item.spread })
    const node = isThroughJunction(relationship) && !hasAggregates(item.select) ? this.#inKeyOrder(planned) : planned
    return {
      kind: 'embedded',
      node,
      name: childName(item),
      alias: this.#alias(`${source.name}_${childName(item)}`),
      join: this.#join(relationship),
      toOne,
      inner: item.join === 'inner',
      spread: item.spread,
    }
  }

  /** Rows that come through a junction have no order of their own; without one asked for, they come in that of their key. */
  #inKeyOrder(node: ReadNode): ReadNode {
    if (node.order.length > 0) return node
    const { schema, name } = node.relation
    const key = this.#context.cache.tables.get(schema)?.get(name)?.primaryKey ?? []
    const resolve = fieldResolver(this.#context.cache, node.relation, this.#context.output)
    const order = key.map(column => ({
      field: resolve({ name: column, path: [] }),
      child: undefined,
      direction: undefined,
      nulls: undefined,
    }))
    return { ...node, order }
  }

  #join(relationship: Relationship): Join {
    if (relationship.kind === 'computed') {
      return { kind: 'function', function: relationship.function, argument: relationship.source }
    }
    const { cardinality } = relationship
    if (cardinality.kind !== 'many-to-many') return { kind: 'columns', columns: cardinality.columns }
    const { table, sourceColumns, targetColumns } = cardinality.junction
    return { kind: 'junction', table, alias: this.#alias(table.name), sourceColumns, targetColumns }
  }
}

const isThroughJunction = (one: Relationship): boolean => one.kind === 'keys' && one.cardinality.kind === 'many-to-many'

/** Whether aggregates stand here, or come up from a spread below. */
function hasAggregates(select: readonly SelectItem[]): boolean {
  return select.some(item =>
    item.kind === 'field' ? item.aggregate !== undefined : item.spread && hasAggregates(item.select),
  )
}

const unacceptableFilter = (name: string) =>
  new RestError({
    status: 400,
    code: 'RST120',
    message: `Bad operator on the '${name}' embedded resource`,
    details: 'Only is null or not is null filters are allowed on embedded resources',
  })

function condition(
  tree: LogicTree,
  resolve: (field: Field) => PlannedField,
  children: readonly EmbeddedNode[],
): Condition {
  if (tree.kind === 'group') {
    const members = tree.members.map(member => condition(member, resolve, children))
    return { kind: 'group', operator: tree.operator, negated: tree.negated, members }
  }
  const { field, negated, operation } = tree.filter
  const child = field.path.length === 0 ? children.find(({ name }) => name === field.name) : undefined
  const planned = resolve(field)
  if (child !== undefined) {
    const isNull = operation.kind === 'is' && operation.value === 'null'
    if (isNull || (operation.kind === 'is' && operation.value === 'not_null')) {
      return { kind: 'embedded', child: child.alias, isNull: isNull !== negated }
    }
    if (planned.type === undefined) throw unacceptableFilter(field.name)
  }
  return { kind: 'filter', field: planned, negated, operation }
}

function plannedOrder(
  source: QualifiedName,
  term: OrderTerm,
  resolve: (field: Field) => PlannedField,
  children: ReadonlyMap<SelectRelation, EmbeddedNode>,
  { cache, output }: ReadContext,
): PlannedOrder {
  const { direction, nulls, relation } = term
  if (relation === undefined) return { field: resolve(term.field), child: undefined, direction, nulls }
  const child = [...children.values()].find(({ name }) => name === relation)
  if (child === undefined) throw notEmbedded(relation)
  if (!child.toOne) {
    throw new RestError({
      status: 400,
      code: 'RST118',
      message: `A related order on '${relation}' is not possible`,
      details: `'${source.name}' and '${relation}' do not form a many-to-one or one-to-one relationship`,
    })
  }
  const field = fieldResolver(cache, child.node.relation, output)(term.field)
  return { field, child: child.alias, direction, nulls }
}

/** Plans a read of a relation; `headerRange` narrows the root's limit and offset. */
export function planRead(
  context: ReadContext,
  relation: QualifiedName,
  query: ParsedQuery,
  headerRange: Range,
): ReadNode {
  return new ReadPlanner(context).node(relation, query.select, said(query), { headerRange, spread: false })
}

/** The conditions of a write on its own relation; nothing is embedded in what is written. */
export function planConditions(cache: SchemaCache, relation: QualifiedName, query: ParsedQuery): Condition[] {
  const resolve = fieldResolver(cache, relation, 'json')
  return [
    ...here(query.filters).map(filter => condition({ kind: 'filter', filter }, resolve, [])),
    ...here(query.logic).map(tree => condition(tree, resolve, [])),
  ]
}
