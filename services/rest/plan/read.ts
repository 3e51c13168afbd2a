/** From what a query string selects to a tree of relations to read, with filters, order and ranges where they belong. */

import type { QualifiedName, Relationship, SchemaCache } from '../../schema-cache/types.ts'
import { aggregateInSpread, aggregatesDisabled, tooManyEmbeddings } from '../errors/catalogue.ts'
import { capped, rowsOf } from '../parse/range.ts'
import type { Field, ParsedQuery, Range, SelectField, SelectItem, SelectRelation } from '../parse/types.ts'
import { condition, plannedOrder } from './conditions.ts'
import { fieldResolver, type Output } from './fields.ts'
import { checkPaths, childName, here, pathNames, type Said, said, saidBelow } from './paths.ts'
import { findRelationship, isToOne } from './relationship.ts'
import type { EmbeddedNode, Join, PlannedColumn, PlannedField, ReadNode } from './types.ts'

type ReadContext = {
  readonly cache: SchemaCache
  readonly output: Output
  readonly maximumRows: number | undefined
  readonly aggregatesEnabled: boolean
  /** Whether the rows of the root are a function's. */
  readonly isReturned?: boolean
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
    { headerRange, spread }: { headerRange: Range | undefined; spread: boolean },
  ): ReadNode {
    const alias = this.#alias(relation.name)
    const { cache, output, isReturned = false } = this.#context
    const resolve = fieldResolver(cache, relation, output, isReturned && this.#aliases.size === 1)
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
        .at(0)
        ?.map(term => plannedOrder(relation, term, resolve, embeddings, cache, output)) ?? []
    const asked = rowsOf(headerRange, here(all.limits).at(-1), here(all.offsets).at(-1))
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
    if (item.aggregate !== undefined && !this.#context.aggregatesEnabled) throw aggregatesDisabled()
    const isStar = item.field.name === '*' && item.aggregate === undefined
    if (isStar) {
      const { tables, representations } = this.#context.cache
      const isNamed =
        siblings === undefined ||
        siblings.some(one => (one.kind === 'relation' ? one.spread : one.aggregate !== undefined))
      const columns =
        isNamed || representations.size > 0 ? tables.get(relation.schema)?.get(relation.name)?.columns : undefined
      const each = [...(columns?.keys() ?? [])].map(name => resolve({ name, path: [] }))
      if (each.length > 0 && (isNamed || each.some(field => field.toOutput !== undefined))) {
        return each.map(field => ({ kind: 'column', field, alias: undefined, cast: undefined, aggregate: undefined }))
      }
    }
    const { alias, cast, aggregate } = item
    return [{ kind: 'column', field: resolve(item.field), alias, cast, aggregate }]
  }

  #embedded(source: QualifiedName, item: SelectRelation, all: Said): EmbeddedNode {
    if (++this.#embeddings > maximumEmbeddings) throw tooManyEmbeddings(maximumEmbeddings)
    const { cache } = this.#context
    const relationship = findRelationship(cache, source, item.name, item.hint)
    const toOne = isToOne(relationship)
    if (item.spread && !toOne && hasAggregates(item.select)) throw aggregateInSpread()
    const planned = this.node(relationship.target, item.select, all, { headerRange: undefined, spread: item.spread })
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

/** Plans a read of a relation; `headerRange` narrows the root's limit and offset. */
export function planRead(
  context: ReadContext,
  relation: QualifiedName,
  query: ParsedQuery,
  headerRange: Range,
): ReadNode {
  return new ReadPlanner(context).node(relation, query.select, said(query), { headerRange, spread: false })
}
