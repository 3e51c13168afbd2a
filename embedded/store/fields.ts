/**
 * Sets of fields, in the form that `metadata.managedFields` uses (FieldsV1): a tree of path elements, `f:<field>`,
 * `k:<keys of a list item>`, `v:<item of a set>`. A node without children is a member of the set; a node with children
 * is a member only if it contains `.`.
 */
import { isObject, type JsonObject, type MutableObject } from './json.ts'

export type FieldSet = JsonObject
export const emptySet: FieldSet = Object.freeze({})
const member: FieldSet = Object.freeze({})

export const isEmpty = (set: FieldSet): boolean => {
  for (const _ in set) return false
  return true
}

/** The set below an element, without the element's own `.`. */
export function childrenOf(set: FieldSet | undefined, element: string): FieldSet {
  const node = set?.[element]
  if (!isObject(node)) return emptySet
  if (node['.'] === undefined) return node
  const { '.': _, ...children } = node
  return children
}

/** Whether the set contains the element itself. */
export function isMember(set: FieldSet, element: string): boolean {
  const node = set[element]
  return isObject(node) && (node['.'] !== undefined || isEmpty(node))
}

/** Whether the set contains the element or anything below it. */
export const reaches = (set: FieldSet, element: string): boolean => set[element] !== undefined

/** Builds a node from its parts; undefined if it is empty. */
export function node(isItself: boolean, children: FieldSet): FieldSet | undefined {
  if (isEmpty(children)) return isItself ? member : undefined
  return isItself ? { '.': member, ...children } : children
}

/** Combines two sets element by element. */
function combine(
  elements: Iterable<string>,
  one: FieldSet,
  other: FieldSet,
  keep: (inOne: boolean, inOther: boolean) => boolean,
  below: (one: FieldSet, other: FieldSet) => FieldSet,
): FieldSet {
  const result: MutableObject = {}
  for (const element of elements) {
    const itself = keep(isMember(one, element), isMember(other, element))
    const combined = node(itself, below(childrenOf(one, element), childrenOf(other, element)))
    if (combined !== undefined) result[element] = combined
  }
  return result
}

export function union(one: FieldSet, other: FieldSet): FieldSet {
  if (isEmpty(one) || one === other) return other
  if (isEmpty(other)) return one
  const elements = new Set([...Object.keys(one), ...Object.keys(other)])
  return combine(elements, one, other, (inOne, inOther) => inOne || inOther, union)
}

export function intersection(one: FieldSet, other: FieldSet): FieldSet {
  if (isEmpty(one) || isEmpty(other)) return emptySet
  const elements = Object.keys(one).filter(element => reaches(other, element))
  return combine(elements, one, other, (inOne, inOther) => inOne && inOther, intersection)
}

/** Members of `one` that are not in `other`. */
export function difference(one: FieldSet, other: FieldSet): FieldSet {
  if (isEmpty(other)) return one
  return combine(Object.keys(one), one, other, (inOne, inOther) => inOne && !inOther, difference)
}

/** Removes from `one` the members of `other`, with everything below them. */
export function without(one: FieldSet, other: FieldSet): FieldSet {
  if (isEmpty(other)) return one
  const onlyInOne = Object.keys(one).filter(element => !isMember(other, element))
  return combine(onlyInOne, one, other, inOne => inOne, without)
}
