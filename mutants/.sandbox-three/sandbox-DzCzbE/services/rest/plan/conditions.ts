/** Filters, logic trees and order against the relation that they are of, and what is embedded in it. */
// @ts-nocheck


import type { QualifiedName, SchemaCache } from '../../schema-cache/types.ts'
import { notEmbedded, notOrderable, unacceptableFilter } from '../errors/catalogue.ts'
import type { Field, LogicTree, OrderTerm, ParsedQuery } from '../parse/types.ts'
import { fieldResolver, type Output } from './fields.ts'
import { here } from './paths.ts'
import type { Condition, EmbeddedNode, PlannedField, PlannedOrder } from './types.ts'

export function condition(
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

export function plannedOrder(
  source: QualifiedName,
  term: OrderTerm,
  resolve: (field: Field) => PlannedField,
  children: readonly EmbeddedNode[],
  cache: SchemaCache,
  output: Output,
): PlannedOrder {
  const { direction, nulls, relation } = term
  if (relation === undefined) return { field: resolve(term.field), child: undefined, direction, nulls }
  const child = children.find(({ name }) => name === relation)
  if (child === undefined) throw notEmbedded(relation)
  if (!child.toOne) throw notOrderable(source.name, relation)
  const field = fieldResolver(cache, child.node.relation, output)(term.field)
  return { field, child: child.alias, direction, nulls }
}

/** The conditions of a write on its own relation; nothing is embedded in what is written. */
export function planConditions(cache: SchemaCache, relation: QualifiedName, query: ParsedQuery): Condition[] {
  const resolve = fieldResolver(cache, relation, 'json')
  return [
    ...here(query.filters).map(filter => condition({ kind: 'filter', filter }, resolve, [])),
    ...here(query.logic).map(tree => condition(tree, resolve, [])),
  ]
}
