/** Resolves filters, logic trees and order for their relation and its embeddings. */

import type { QualifiedName, SchemaCache } from '../../schema-cache/types.ts'
import { notEmbedded, notOrderable, unacceptableFilter } from '../errors/catalogue.ts'
import type { RestError } from '../errors/rest-error.ts'
import type { Field, Filter, LogicTree, OrderTerm, ParsedQuery } from '../parse/types.ts'
import { fieldResolver } from './fields.ts'
import { here, type Placed } from './paths.ts'
import type { Condition, EmbeddedNode, PlannedField, PlannedOrder } from './types.ts'

/** Called for an error. Planning continues, since another error may take precedence. */
type Refuse = (error: RestError) => void

export function condition(
  tree: LogicTree,
  resolve: (field: Field) => PlannedField,
  children: readonly EmbeddedNode[],
  refuse: Refuse,
): Condition {
  if (tree.kind === 'group') {
    const members = tree.members.map(member => condition(member, resolve, children, refuse))
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
    if (planned.type === undefined) refuse(unacceptableFilter(field.name))
  }
  return { kind: 'filter', field: planned, negated, operation }
}

export function plannedOrder(
  source: QualifiedName,
  term: OrderTerm,
  resolve: (field: Field) => PlannedField,
  children: readonly EmbeddedNode[],
  cache: SchemaCache,
  refuse: Refuse,
): PlannedOrder | undefined {
  const { direction, nulls, relation } = term
  if (relation === undefined) return { field: resolve(term.field), child: undefined, direction, nulls }
  const child = children.find(({ name }) => name === relation)
  if (child?.toOne !== true) {
    refuse(child === undefined ? notEmbedded(relation) : notOrderable(source.name, relation))
    return undefined
  }
  const field = fieldResolver(cache, child.node.relation)(term.field)
  return { field, child: child.alias, direction, nulls }
}

const asTrees = (filters: readonly Filter[]): LogicTree[] => filters.map(filter => ({ kind: 'filter', filter }))

/**
 * All conditions of a node. As in PostgREST, logic comes first: if two conditions are wrong, Postgres reports the first
 * one.
 */
export const treesHere = ({ filters, logic }: Placed): LogicTree[] => [...logic, ...asTrees(filters)]

/** The conditions of a write on its own relation, filters first. A written relation has no embeddings. */
export function planConditions(cache: SchemaCache, relation: QualifiedName, query: ParsedQuery): Condition[] {
  const resolve = fieldResolver(cache, relation)
  // The refused condition refers to an embedding.
  return [...asTrees(here(query.filters)), ...here(query.logic)].map(tree =>
    condition(tree, resolve, [], () => undefined),
  )
}
