/**
 * Finds an embedding's relationship. The target is the name of a relation, a foreign key or a column. If the target is
 * ambiguous, a hint selects the relationship.
 */

import type { QualifiedName, Relationship, SchemaCache } from '../../schema-cache/types.ts'
import { ambiguousRelationship, relationshipNotFound } from '../errors/catalogue.ts'
import type { RestError } from '../errors/rest-error.ts'
import { suggestion } from './suggestions.ts'

const isToOne = (one: Relationship): boolean =>
  one.kind === 'computed' ? one.toOne : one.cardinality.kind === 'many-to-one' || one.cardinality.kind === 'one-to-one'

export { isToOne }

type KeyRelationship = Extract<Relationship, { kind: 'keys' }>

const hasConstraint = ({ cardinality }: KeyRelationship, name: string) =>
  cardinality.kind !== 'many-to-many' && cardinality.constraint === name

/** The source's column, if it is the only one in the relationship's join, on either side of the key. */
const ownColumn = ({ cardinality }: KeyRelationship): string | undefined =>
  cardinality.kind === 'many-to-many' ? undefined : onlyOne(cardinality.columns.map(([source]) => source))
/** The target's column, if it is the only one in the relationship's join, on either side of the key. */
const columnOfOther = ({ cardinality }: KeyRelationship): string | undefined =>
  cardinality.kind === 'many-to-many' ? undefined : onlyOne(cardinality.columns.map(([, target]) => target))
const onlyOne = (list: readonly string[]): string | undefined => (list.length === 1 ? list[0] : undefined)

const throughJunction = ({ cardinality }: KeyRelationship, name: string) =>
  cardinality.kind === 'many-to-many' && cardinality.junction.table.name === name

/** In a self-reference, the relation's name selects the children, and the key's or column's name selects the parent. */
function fitsSelf(one: KeyRelationship, target: string, hint: string | undefined): boolean {
  const { kind } = one.cardinality
  const isParent = kind === 'many-to-one' || (one.cardinality.kind === 'one-to-one' && !one.cardinality.referenced)
  if (hint === undefined) {
    if (target === one.target.name) return !isParent && kind !== 'many-to-many'
    return isParent && (hasConstraint(one, target) || ownColumn(one) === target)
  }
  if (target !== one.target.name) return false
  return !isParent && (hasConstraint(one, hint) || columnOfOther(one) === hint)
}

function fits(one: Relationship, target: string, hint: string | undefined): boolean {
  if (one.kind === 'computed') return hint === undefined && one.function.name === target
  if (one.self) return fitsSelf(one, target, hint)
  if (hint === undefined) {
    if (target === one.target.name) return true
    // The name of a key or column does not decide which relation exposes it. The table is selected, not a view of the
    // table.
    return !one.targetIsView && (hasConstraint(one, target) || ownColumn(one) === target)
  }
  if (target !== one.target.name) return false
  return (
    hasConstraint(one, hint) || ownColumn(one) === hint || columnOfOther(one) === hint || throughJunction(one, hint)
  )
}

const bySource = (cache: SchemaCache, { schema, name }: QualifiedName): readonly Relationship[] =>
  cache.relationships.get(schema)?.get(name) ?? []

/** How similar a name must be for a suggestion. */
const likely = 0.33

function noRelationship(
  cache: SchemaCache,
  source: QualifiedName,
  target: string,
  hint: string | undefined,
): RestError {
  const { schema, name } = source
  const known = bySource(cache, source).flatMap(one => (one.target.schema === schema ? [one.target.name] : []))
  const isSource = cache.relationships.get(schema)?.has(name) === true
  const meant = isSource
    ? suggestion(target, new Set(known), likely)
    : suggestion(name, cache.relationships.get(schema)?.keys() ?? [], likely)
  const wrong = isSource ? target : name
  // A name that exists, in any case, is not misspelt.
  const isThere = isSource && meant?.toLowerCase() === wrong.toLowerCase()
  const guess = meant === undefined || isThere ? undefined : { meant, wrong }
  return relationshipNotFound(source, target, hint, guess)
}

function described(one: Relationship): { cardinality: string; embedding: string; relationship: string; hint: string } {
  const embedding = `${one.source.name} with ${one.target.name}`
  if (one.kind === 'computed') {
    const { name } = one.function
    return { cardinality: one.toOne ? 'many-to-one' : 'one-to-many', relationship: name, embedding, hint: name }
  }
  const list = (columns: readonly string[]) => `(${columns.join(', ')})`
  const { cardinality } = one
  if (cardinality.kind === 'many-to-many') {
    const { table, sourceConstraint, targetConstraint, sourceColumns, targetColumns } = cardinality.junction
    const first = `${sourceConstraint}${list(sourceColumns.map(([, column]) => column))}`
    const second = `${targetConstraint}${list(targetColumns.map(([, column]) => column))}`
    return {
      cardinality: 'many-to-many',
      relationship: `${table.name} using ${first} and ${second}`,
      embedding,
      hint: `${one.target.name}!${table.name}`,
    }
  }
  const source = `${one.source.name}${list(cardinality.columns.map(([column]) => column))}`
  const target = `${one.target.name}${list(cardinality.columns.map(([, column]) => column))}`
  return {
    cardinality: cardinality.kind,
    relationship: `${cardinality.constraint} using ${source} and ${target}`,
    embedding,
    hint: `${one.target.name}!${cardinality.constraint}`,
  }
}

function ambiguous(source: QualifiedName, target: string, found: readonly Relationship[]): RestError {
  const all = found.map(described)
  const details = all.map(({ cardinality, embedding, relationship }) => ({ cardinality, embedding, relationship }))
  return ambiguousRelationship(
    source.name,
    target,
    details,
    all.map(({ hint }) => hint),
  )
}

/** Whether the other side has the foreign key. */
const isReferred = (one: Relationship): boolean =>
  one.kind === 'keys' &&
  (one.cardinality.kind === 'one-to-many' || (one.cardinality.kind === 'one-to-one' && one.cardinality.referenced))

const constraintOf = (one: Relationship): string | undefined =>
  one.kind === 'keys' && one.cardinality.kind !== 'many-to-many' ? one.cardinality.constraint : undefined

/** Lists the relationships in PostgREST's order: keys of other relations first, then by constraint name. */
function byListing(one: Relationship, other: Relationship): number {
  const [a, b] = [constraintOf(one), constraintOf(other)]
  const referred = Number(isReferred(other)) - Number(isReferred(one))
  return referred !== 0 || a === undefined || b === undefined ? referred : a < b ? -1 : Number(a > b)
}

/**
 * The relationship of an embedding of `target` in `source`. A function that returns rows of the target takes precedence
 * over foreign keys. @throws RST200 if there is none, RST201 if there are several
 */
export function findRelationship(
  cache: SchemaCache,
  source: QualifiedName,
  target: string,
  hint: string | undefined,
): Relationship {
  // Relationships to other schemas are hidden, and so are relationships through a junction in another schema.
  const shown = bySource(cache, source).filter(
    one =>
      one.target.schema === source.schema &&
      (one.kind === 'computed' ||
        one.cardinality.kind !== 'many-to-many' ||
        one.cardinality.junction.table.schema === source.schema),
  )
  const found = shown.filter(one => fits(one, target, hint))
  const computed = found.filter(one => one.kind === 'computed')
  const candidates = computed.length > 0 ? computed : found.toSorted(byListing)
  const [first] = candidates
  if (first === undefined) throw noRelationship(cache, source, target, hint)
  if (candidates.length > 1) throw ambiguous(source, target, candidates)
  return first
}
