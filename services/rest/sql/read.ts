/**
 * Renders a tree of relations as one SELECT. Each embedding is a lateral subquery that its parent joins, so that
 * Postgres plans everything at once. A to-one embedding becomes a JSON object of its row. A to-many embedding becomes
 * an array that the subquery builds. A spread passes its columns to the parent.
 */

import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { Range } from '../parse/types.ts'
import type { Condition, EmbeddedNode, PlannedColumn, ReadNode } from '../plan/types.ts'
import { conditionSql, fieldSql, type Scope, whereSql } from './condition.ts'
import { digitsOf, limitSql, rowOf, type StatementWriter, typeName } from './statement.ts'

/** A column that a spread passes to its parent. */
type Passed = {
  /** Its name in the subquery. */
  readonly column: string
  /** Its final name. */
  readonly name: string
  /** The nearest parent that is not a to-one spread computes the aggregate, over its own rows. */
  readonly aggregate: PlannedColumn['aggregate']
}

/**
 * `passesUp`: the node is a to-one spread, so its aggregates are applied in the parent. `isCompared`: the parent groups
 * by its columns.
 */
type Role = { readonly passesUp: boolean; readonly isCompared: boolean }
const alone: Role = { passesUp: false, isCompared: false }

type Level = {
  readonly list: string[]
  /** All grouping expressions. `keys`: without embedded rows. */
  readonly groups: string[]
  readonly keys: string[]
  readonly passed: Passed[]
  hasAggregates: boolean
}

const cast = (expression: string, type: string | undefined) =>
  type === undefined ? expression : `CAST(${expression} AS ${typeName(type)})`

const aggregated = (expression: string, aggregate: NonNullable<PlannedColumn['aggregate']>) =>
  cast(`${aggregate.name}(${expression})`, aggregate.cast)

/** A column's name in the response: its alias, its aggregate's name, the last key of its path, or its own name. */
function outputName({ field, alias, aggregate }: PlannedColumn): string {
  if (alias !== undefined) return alias
  if (aggregate !== undefined) return aggregate.name
  const key = field.path.findLast(step => typeof step.key === 'string' && step.key !== '')?.key
  return typeof key === 'string' ? key : field.name
}

/** Whether the item selects all columns. With a cast, a path or an aggregate, `*` is a column's name. */
const isStar = ({ field, cast: type, aggregate }: PlannedColumn): boolean =>
  field.name === '*' && field.path.length === 0 && type === undefined && aggregate === undefined

/** Types that GROUP BY cannot use, because they have no equality operator. */
const incomparable = /^(json|xml|point|line|lseg|box|path|polygon|circle)(\[\])?$/

const embeddings = (node: ReadNode): EmbeddedNode[] => node.select.filter(item => item.kind === 'embedded')

/** Whether neither the node nor any node below it selects a column. */
const isEmpty = (node: ReadNode): boolean => node.select.every(item => item.kind === 'embedded' && isEmpty(item.node))

/** Whether a node has aggregates: its own, or a spread's. */
export const hasAggregates = (node: ReadNode): boolean =>
  node.select.some(item =>
    item.kind === 'column' ? item.aggregate !== undefined : item.spread && hasAggregates(item.node),
  )

/** Whether an embedding in this node has that name: directly, or in a spread. */
const showsEmbedding = (node: ReadNode, name: string): boolean =>
  embeddings(node).some(child => (child.spread ? showsEmbedding(child.node, name) : child.name === name))

/**
 * Embeddings follow the columns. jsonb keeps the last value of a duplicate key, so an embedding hides the column with
 * the same name.
 */
const embeddedLast = (node: ReadNode): ReadNode => ({
  ...node,
  select: [
    ...node.select.filter(item => item.kind === 'column'),
    ...embeddings(node).map(child => ({ ...child, node: embeddedLast(child.node) })),
  ],
})

class ReadWriter {
  readonly #writer: StatementWriter
  readonly #root: ReadNode

  constructor(writer: StatementWriter, root: ReadNode) {
    this.#writer = writer
    this.#root = root
  }

  /** A column's expression before any aggregate. */
  #expression(source: string, { field, cast: type, aggregate }: PlannedColumn): string {
    if (aggregate?.name === 'count' && field.name === '*' && field.path.length === 0) return '*'
    const plain = fieldSql(this.#writer, source, field)
    // Aggregates use the unconverted value. A cast applies to the converted value.
    const isConverted = field.toOutput !== undefined && (aggregate === undefined || type !== undefined)
    const shown = isConverted ? `${qualified(field.toOutput)}(${plain})` : plain
    return cast(shown, type)
  }

  #column(level: Level, source: string, column: PlannedColumn, passesUp: boolean): void {
    if (isStar(column)) {
      level.list.push(`${quoteIdentifier(source)}.*`)
      level.groups.push(`${quoteIdentifier(source)}.*`)
      return
    }
    const expression = this.#expression(source, column)
    const name = outputName(column)
    const { aggregate } = column
    if (aggregate === undefined) {
      level.list.push(`${expression} AS ${quoteIdentifier(name)}`)
      const group = this.#group(source, column, expression)
      level.groups.push(group)
      level.keys.push(group)
      level.passed.push({ column: name, name, aggregate })
    } else if (passesUp) {
      const hidden = `rst_aggregate_${level.passed.length + 1}_${name}`
      level.list.push(`${expression === '*' ? 'TRUE' : expression} AS ${quoteIdentifier(hidden)}`)
      level.passed.push({ column: hidden, name, aggregate })
    } else {
      level.list.push(`${aggregated(expression, aggregate)} AS ${quoteIdentifier(name)}`)
      level.hasAggregates = true
    }
  }

  /**
   * The grouping expression of a column. If the column keeps its own name, this is the unconverted column, even if the
   * response has a converted value. PostgREST does the same.
   */
  #group(source: string, column: PlannedColumn, expression: string): string {
    const { field, alias } = column
    const isOwnName = outputName(column) === field.name
    if (isOwnName && field.baseType !== undefined && !incomparable.test(field.baseType))
      return fieldSql(this.#writer, source, { ...field, path: [] })
    // A domain's conversion returns json, which cannot be compared.
    return alias === undefined || field.toOutput !== undefined ? fieldSql(this.#writer, source, field) : expression
  }

  #spread(level: Level, child: EmbeddedNode, passed: readonly Passed[], passesUp: boolean): void {
    const alias = quoteIdentifier(child.alias)
    for (const { column, name, aggregate } of passed) {
      const expression = `${alias}.${quoteIdentifier(column)}`
      if (!child.toOne) {
        level.list.push(`COALESCE(${expression}, '[]') AS ${quoteIdentifier(name)}`)
        level.groups.push(expression)
        level.passed.push({ column: name, name, aggregate: undefined })
      } else if (aggregate === undefined || passesUp) {
        level.list.push(`${expression} AS ${quoteIdentifier(column)}`)
        if (aggregate === undefined) {
          level.groups.push(expression)
          level.keys.push(expression)
        }
        level.passed.push({ column, name, aggregate })
      } else {
        level.list.push(`${aggregated(expression, aggregate)} AS ${quoteIdentifier(name)}`)
        level.hasAggregates = true
      }
    }
  }

  #embedded(level: Level, child: EmbeddedNode, isGrouped: boolean): void {
    // An embedding without columns only filters the parent's rows.
    if (isEmpty(child.node)) return
    const alias = quoteIdentifier(child.alias)
    const name = quoteIdentifier(child.name)
    if (child.toOne) {
      // json and rows that contain json cannot be compared.
      const object = isGrouped ? `to_jsonb(${alias}.*)` : `row_to_json(${alias}.*)`
      level.list.push(`${object} AS ${name}`)
      level.groups.push(object)
    } else {
      level.list.push(`COALESCE(${alias}."rst_rows", '[]') AS ${name}`)
      level.groups.push(`${alias}."rst_rows"`)
    }
    level.passed.push({ column: child.name, name: child.name, aggregate: undefined })
  }

  /** The lateral join of one embedding, and the columns that a spread passes to its parent. */
  #join(parent: ReadNode, child: EmbeddedNode, isGrouped: boolean): { text: string; passed: Passed[] } {
    const { from, conditions } = this.#source(parent, child)
    const isOnlyShown =
      this.#root === parent &&
      !child.spread &&
      !child.inner &&
      !parent.conditions.some(one => isFilteredBy(one, child.alias))
    const passesUp = child.spread && child.toOne
    // If no columns are selected, the order can use all columns.
    const isOrderedBy = isEmpty(child.node) && parent.order.some(term => term.child === child.alias)
    const columns = isOrderedBy ? `${quoteIdentifier(child.node.alias)}.*` : undefined
    // The parent groups by the columns of a spread.
    const isCompared = child.spread && isGrouped
    const shown = isGrouped ? embeddedLast(child.node) : child.node
    const { text, passed } = this.select(shown, from, conditions, { passesUp, isCompared }, columns)
    const alias = quoteIdentifier(child.alias)
    const kind = child.inner ? 'INNER' : 'LEFT'
    if (child.toOne) {
      // With OFFSET 0, Postgres evaluates this subquery for each row of the page. So the rows keep their order, and the
      // cost depends only on the page.
      const fence = isOnlyShown && !isEmpty(child.node) && child.node.range.offset === 0 ? ' OFFSET 0' : ''
      return { text: ` ${kind} JOIN LATERAL (${text}${fence}) AS ${alias} ON TRUE`, passed }
    }
    const spread = child.spread ? passed : []
    // Grouping expressions must be comparable, and json is not.
    const array = isGrouped ? 'jsonb_agg' : 'json_agg'
    const arrays = spread.map(
      ({ column }) => `${array}(${alias}.${quoteIdentifier(column)}) AS ${quoteIdentifier(column)}`,
    )
    const rows = `${array}(${alias}) AS "rst_rows"`
    const lists = child.spread && !isEmpty(child.node) ? [...arrays, 'nullif(count(*), 0) AS "rst_rows"'] : [rows]
    const on = child.inner ? `${alias}."rst_rows" IS NOT NULL` : 'TRUE'
    return {
      text: ` ${kind} JOIN LATERAL (SELECT ${lists.join(', ')} FROM (${text}) AS ${alias}) AS ${alias} ON ${on}`,
      passed,
    }
  }

  /** The source of an embedding's rows, and the condition that joins them with the parent. */
  #source(parent: ReadNode, { node, join }: EmbeddedNode): { from: string; conditions: string[] } {
    const own = quoteIdentifier(node.alias)
    const table = `${qualified(node.relation)} AS ${own}`
    const above = quoteIdentifier(parent.alias)
    switch (join.kind) {
      case 'columns': {
        const conditions = join.columns.map(
          ([source, target]) => `${own}.${quoteIdentifier(target)} = ${above}.${quoteIdentifier(source)}`,
        )
        return { from: table, conditions }
      }
      case 'junction': {
        const junction = quoteIdentifier(join.alias)
        const between = (pairs: readonly (readonly [string, string])[], side: string) =>
          pairs.map(([column, key]) => `${junction}.${quoteIdentifier(key)} = ${side}.${quoteIdentifier(column)}`)
        return {
          from: `${table}, ${qualified(join.table)} AS ${junction}`,
          conditions: [...between(join.targetColumns, own), ...between(join.sourceColumns, above)],
        }
      }
      case 'function': {
        const row = `${rowOf(parent.alias)}::${qualified(join.argument)}`
        return { from: `${qualified(join.function)}(${row}) AS ${own}`, conditions: [] }
      }
    }
  }

  #order({ alias: source, order, select }: ReadNode): string {
    if (order.length === 0) return ''
    const terms = order.map(({ field, child, direction, nulls }) => {
      const way = direction === undefined ? '' : direction === 'asc' ? ' ASC' : ' DESC'
      const last = nulls === undefined ? '' : nulls === 'first' ? ' NULLS FIRST' : ' NULLS LAST'
      const expression = fieldSql(this.#writer, child ?? source, field)
      const embedding = select.find(item => item.kind === 'embedded' && item.alias === child)
      // An embedding hides the column with the same name. The embedding is json, which has no order, so it is cast to
      // jsonb.
      const isHidden = embedding?.kind === 'embedded' && showsEmbedding(embedding.node, field.name)
      return `${isHidden && field.path.length === 0 ? `CAST(${expression} AS jsonb)` : expression}${way}${last}`
    })
    return ` ORDER BY ${terms.join(', ')}`
  }

  #range({ offset, limit }: Range): string {
    const most = limit === undefined ? '' : ` LIMIT ${limitSql(this.#writer, limit)}`
    return offset === 0 ? most : `${most} OFFSET ${digitsOf(this.#writer, offset)}`
  }

  /** The SELECT of a node, and its columns for the parent. */
  select(
    node: ReadNode,
    from: string,
    joined: readonly string[],
    { passesUp, isCompared }: Role,
    more?: string,
  ): { text: string; passed: Passed[] } {
    const level: Level = { list: [], groups: [], keys: [], passed: [], hasAggregates: false }
    const isGrouped = isCompared || hasAggregates(node)
    const joins: string[] = []
    for (const item of node.select) {
      if (item.kind === 'column') {
        this.#column(level, node.alias, item, passesUp)
        continue
      }
      const { text, passed } = this.#join(node, item, isGrouped)
      joins.push(text)
      if (item.spread) this.#spread(level, item, passed, passesUp)
      else this.#embedded(level, item, isGrouped)
    }
    const scope: Scope = { source: node.alias, children: embeddings(node) }
    const conditions = [...joined, ...node.conditions.map(one => conditionSql(this.#writer, scope, one))]
    const groups = level.hasAggregates && level.groups.length > 0 ? ` GROUP BY ${level.groups.join(', ')}` : ''
    const columns = more === undefined ? level.list : [...level.list, more]
    // The root returns rows without columns. In an embedding, an existing row must differ from a missing row.
    const empty = node === this.#root ? '' : '1 AS "rst_nothing"'
    const list = columns.length === 0 ? empty : columns.join(', ')
    // By default, groups are ordered by their keys: hashing would make the order random.
    const grouped = groups !== '' && node.order.length === 0 && level.keys.length > 0
    const order = grouped ? ` ORDER BY ${level.keys.join(', ')}` : this.#order(node)
    const rest = `${whereSql(conditions)}${groups}${order}${this.#range(node.range)}`
    return { text: `SELECT ${list} FROM ${from}${joins.join('')}${rest}`, passed: level.passed }
  }

  /** The rows that match a node's conditions. Ignores the node's range. */
  countable(node: ReadNode, from: string): string {
    const joins = embeddings(node)
      .filter(child => child.inner || node.conditions.some(one => isFilteredBy(one, child.alias)))
      .map(child => this.#join(node, child, false).text)
    const scope: Scope = { source: node.alias, children: embeddings(node) }
    const conditions = node.conditions.map(one => conditionSql(this.#writer, scope, one))
    return `SELECT 1 FROM ${from}${joins.join('')}${whereSql(conditions)}`
  }
}

/** Whether a condition refers to an embedding. */
function isFilteredBy(condition: Condition, alias: string): boolean {
  if (condition.kind === 'group') return condition.members.some(member => isFilteredBy(member, alias))
  return condition.kind === 'embedded' && condition.child === alias
}

/** The relation, or `source` in its place, with the node's alias. */
export const sourceSql = (node: ReadNode, source: string = qualified(node.relation)): string =>
  `${source} AS ${quoteIdentifier(node.alias)}`

export const selectSql = (writer: StatementWriter, node: ReadNode, from: string): string =>
  new ReadWriter(writer, node).select(node, from, [], alone).text

/** Like `selectSql`, with additional conditions and one additional column. `names`: the names of the other columns. */
export function keyedSql(
  writer: StatementWriter,
  node: ReadNode,
  from: string,
  conditions: readonly string[],
  column: string,
): { text: string; names: string[] } {
  const { text, passed } = new ReadWriter(writer, node).select(node, from, conditions, alone, column)
  return { text, names: passed.map(one => one.column) }
}

export const countableSql = (writer: StatementWriter, node: ReadNode, from: string): string =>
  new ReadWriter(writer, node).countable(node, from)
