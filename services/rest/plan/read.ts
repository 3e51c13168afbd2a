/** Builds the tree of relations that a query string reads. Filters, order and ranges are in their nodes. */

import type { QualifiedName, Relationship, SchemaCache } from '../../schema-cache/types.ts'
import { aggregateInSpread, aggregatesDisabled, tooManyEmbeddings } from '../errors/catalogue.ts'
import type { RestError } from '../errors/rest-error.ts'
import { capped, requestedRange } from '../parse/range.ts'
import type { Field, ParsedQuery, Range, SelectField, SelectItem, SelectRelation } from '../parse/types.ts'
import { condition, plannedOrder, treesHere } from './conditions.ts'
import { fieldResolver } from './fields.ts'
import { childName, type Placed, resolvePaths } from './paths.ts'
import { findRelationship, isToOne } from './relationship.ts'
import type { EmbeddedNode, Join, PlannedColumn, PlannedField, ReadNode, TargetName } from './types.ts'

type ReadContext = {
  readonly cache: SchemaCache
  readonly maximumRows: number | undefined
  readonly aggregatesEnabled: boolean
  /** For rows that a function returns: Postgres's name for them. */
  readonly returnedAs?: string
  /** Whether a request must name an embedding by its alias if there is one. */
  readonly aliasesOnly: boolean
}

/** The maximum length of a name (NAMEDATALEN, Postgres manual, section 4.1.1). */
const maximumAliasBytes = 63

/** The maximum number of embeddings. Each embedding is one more join for Postgres's planner. */
const maximumEmbeddings = 100

/** Errors that are found after all relationships are resolved, in the order of precedence. */
const stages = { order: 0, aggregates: 1, spreads: 2, filters: 3 } as const
/** `node`: the node's number, from the root down. */
type Fault = {
  readonly stage: (typeof stages)[keyof typeof stages]
  readonly node: number
  readonly error: RestError
}

/** Plans one relation and its embeddings, with unique aliases. */
class ReadPlanner {
  readonly #context: ReadContext
  #embeddings = 0
  readonly #aliases = new Set<string>()
  readonly #faults: Fault[] = []
  #nodes = 0

  constructor(context: ReadContext) {
    this.#context = context
  }

  /**
   * Plans a complete read. Reports errors that are found after all relationships are resolved in PostgREST's order: by
   * kind, then from the root down.
   */
  root(relation: QualifiedName, query: ParsedQuery, range: Range): ReadNode {
    const all = resolvePaths(query, this.#context.aliasesOnly)
    const name = this.#context.returnedAs ?? relation.name
    const node = this.#node(relation, name, query.select, all, { range, spread: false, depth: 0 })
    const [first] = this.#faults.toSorted((one, other) => one.stage - other.stage || one.node - other.node)
    if (first !== undefined) throw first.error
    return node
  }

  /**
   * A unique name. Postgres truncates names to 63 bytes, so two long names that differ only at the end could become
   * equal.
   */
  #alias(wanted: string): string {
    const isShort = Buffer.byteLength(wanted) <= maximumAliasBytes && !wanted.startsWith('rst_')
    const alias = isShort && !this.#aliases.has(wanted) ? wanted : `rst_relation_${this.#aliases.size}`
    this.#aliases.add(alias)
    return alias
  }

  #node(
    relation: QualifiedName,
    wantedAlias: string,
    select: readonly SelectItem[],
    all: Placed,
    { range, spread, depth }: { range: Range; spread: boolean; depth: number },
  ): ReadNode {
    const number = this.#nodes++
    const alias = this.#alias(wantedAlias)
    const { cache, returnedAs } = this.#context
    const resolve = fieldResolver(cache, relation, returnedAs !== undefined && depth === 0)
    const children = new Map<SelectRelation, EmbeddedNode>()
    for (const item of all.embeddings) children.set(item, this.#embedded(relation, item, all.below(item), depth + 1))
    const embeddings = [...children.values()]
    const terms = all.order.at(0) ?? []
    const refuse = (stage: Fault['stage']) => (error: RestError) => this.#faults.push({ stage, node: number, error })
    const order = terms.flatMap(
      term => plannedOrder(relation, term, resolve, embeddings, cache, refuse(stages.order)) ?? [],
    )
    const conditions = treesHere(all).map(tree => condition(tree, resolve, embeddings, refuse(stages.filters)))
    const columns = (item: SelectField) =>
      this.#columns(relation, item, resolve, spread ? undefined : select, refuse(stages.aggregates))
    return {
      relation,
      alias,
      select: select.flatMap((item, index): (PlannedColumn | EmbeddedNode)[] => {
        if (item.kind === 'relation') return embeddings.filter(one => one === children.get(item))
        // Columns that a spread passes by name must be unique.
        const isAgain = spread && isPlainStar(item) && select.slice(0, index).some(isPlainStar)
        return isAgain ? [] : columns(item)
      }),
      conditions,
      order,
      range: capped(range, this.#context.maximumRows),
    }
  }

  /** Returns one column. If a star would hide a conversion or a group, returns each column of the relation. */
  #columns(
    relation: QualifiedName,
    item: SelectField,
    resolve: (field: Field) => PlannedField,
    /** Undefined in a spread: its columns become the parent's columns, by name. */
    siblings: readonly SelectItem[] | undefined,
    refuse: (error: RestError) => void,
  ): PlannedColumn[] {
    if (item.aggregate !== undefined && !this.#context.aggregatesEnabled) refuse(aggregatesDisabled())
    const isStar = item.field.name === '*' && item.aggregate === undefined
    if (isStar) {
      const { tables, representations } = this.#context.cache
      const isNamed =
        siblings === undefined ||
        siblings.some(one => (one.kind === 'relation' ? one.spread : one.aggregate !== undefined))
      const columns =
        isNamed || representations.size > 0 ? tables.get(relation.schema)?.get(relation.name)?.columns : undefined
      const each = [...(columns?.keys() ?? [])].map(name => resolve({ name, path: [] }))
      // The columns are unknown, so the rows cannot be grouped.
      if (each.length === 0 && siblings?.some(one => one.kind === 'field' && one.aggregate !== undefined)) return []
      if (each.length > 0 && (isNamed || each.some(field => field.toOutput !== undefined))) {
        return each.map(field => ({ kind: 'column', field, alias: undefined, cast: undefined, aggregate: undefined }))
      }
    }
    const { alias, cast, aggregate } = item
    return [{ kind: 'column', field: resolve(item.field), alias, cast, aggregate }]
  }

  #embedded(source: QualifiedName, item: SelectRelation, all: Placed, depth: number): EmbeddedNode {
    if (++this.#embeddings > maximumEmbeddings) throw tooManyEmbeddings(maximumEmbeddings)
    const { cache } = this.#context
    const relationship = findRelationship(cache, source, item.name, item.hint)
    const toOne = isToOne(relationship)
    if (item.spread && !toOne && hasAggregates(item.select))
      this.#faults.push({ stage: stages.spreads, node: this.#nodes, error: aggregateInSpread() })
    const { target } = relationship
    // PostgREST uses these names, and Postgres's errors contain them.
    const wanted = isThroughJunction(relationship) && !isSelf(relationship) ? target.name : `${target.name}_${depth}`
    const range = requestedRange(all.limits.at(-1), all.offsets.at(-1))
    const planned = this.#node(target, wanted, item.select, all, { range, spread: item.spread, depth })
    const node = isThroughJunction(relationship) && !hasAggregates(item.select) ? this.#inKeyOrder(planned) : planned
    return {
      kind: 'embedded',
      node,
      name: childName(item),
      calledByRelation: all.isCalledByRelation ? item.name : undefined,
      alias: this.#alias(`${source.name}_${childName(item)}_${depth}`),
      join: this.#join(relationship),
      toOne,
      inner: item.join === 'inner',
      spread: item.spread,
    }
  }

  /** The rows of a junction have no order. By default they are ordered by the junction's key. */
  #inKeyOrder(node: ReadNode): ReadNode {
    const { schema, name } = node.relation
    const { tables, computedColumns } = this.#context.cache
    const computed = computedColumns.get(schema)?.get(name)
    // An unknown column may be an aggregate of the row, such as `count`. The input of an aggregate has no order.
    const isKnown = node.select.every(
      item =>
        item.kind === 'embedded' ||
        item.field.name === '*' ||
        item.field.type !== undefined ||
        computed?.includes(item.field.name) === true,
    )
    if (node.order.length > 0 || !isKnown) return node
    const key = tables.get(schema)?.get(name)?.primaryKey ?? []
    const resolve = fieldResolver(this.#context.cache, node.relation)
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

const isPlainStar = (item: SelectItem): boolean =>
  item.kind === 'field' && item.field.name === '*' && item.field.path.length === 0 && item.aggregate === undefined

const isSelf = (one: Relationship): boolean => one.kind === 'keys' && one.self
const isThroughJunction = (one: Relationship): boolean => one.kind === 'keys' && one.cardinality.kind === 'many-to-many'

/** Whether the node or a spread below it has aggregates. */
function hasAggregates(select: readonly SelectItem[]): boolean {
  return select.some(item =>
    item.kind === 'field' ? item.aggregate !== undefined : item.spread && hasAggregates(item.select),
  )
}

/** Plans a read of a relation. `range`: the range of its own rows. */
export function planRead(context: ReadContext, relation: QualifiedName, query: ParsedQuery, range: Range): ReadNode {
  return new ReadPlanner(context).root(relation, query, range)
}

/** Embeddings that the query string names by relation although they have aliases. */
export const targetNamesOf = ({ select }: ReadNode): TargetName[] =>
  select.flatMap(item => {
    if (item.kind === 'column') return []
    const own = item.calledByRelation === undefined ? [] : [{ relation: item.calledByRelation, alias: item.name }]
    return [...own, ...targetNamesOf(item.node)]
  })
