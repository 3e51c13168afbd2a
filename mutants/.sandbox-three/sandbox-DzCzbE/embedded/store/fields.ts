/**
 * Sets of fields, in the very form in which `metadata.managedFields` carries them (FieldsV1): a tree of path elements,
 * `f:<field>`, `k:<keys of a list item>`, `v:<item of a set>`. A node without children is a member of the set; one with
 * children is a member only if it holds `.`.
 */
// @ts-nocheck

import { isObject, type JsonObject, type MutableObject } from './json.ts'

export type FieldSet = JsonObject
export const emptySet: FieldSet = Object.freeze({})
const member: FieldSet = Object.freeze({})

export const isEmpty = (set: FieldSet): boolean => {
  for (const _ in set) return false
  return true
}

/** Below an element: its own set, without the mark that says that it is a member itself. */
export function childrenOf(set: FieldSet | undefined, element: string): FieldSet {
  const node = set?.[element]
  if (!isObject(node)) return emptySet
  if (node['.'] === undefined) return node
  const { '.': _, ...children } = node
  return children
}

/** Whether the path of this one element is in the set. */
export function isMember(set: FieldSet, element: string): boolean {
  const node = set[element]
  return isObject(node) && (node['.'] !== undefined || isEmpty(node))
}

/** Whether the element or anything below it is in the set. */
export const reaches = (set: FieldSet, element: string): boolean => set[element] !== undefined

/** A node from its parts, or undefined where there is nothing in it. */
export function node(isItself: boolean, children: FieldSet): FieldSet | undefined {
  if (isEmpty(children)) return isItself ? member : undefined
  return isItself ? { '.': member, ...children } : children
}

/** Builds a set from what holds of every element of two sets together. */
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

/** What is in `one` and not in `other`. */
export function difference(one: FieldSet, other: FieldSet): FieldSet {
  if (isEmpty(other)) return one
  return combine(Object.keys(one), one, other, (inOne, inOther) => inOne && !inOther, difference)
}

/** `one` without the members of `other` and everything below them. */
export function without(one: FieldSet, other: FieldSet): FieldSet {
  if (isEmpty(other)) return one
  const left = Object.keys(one).filter(element => !isMember(other, element))
  return combine(left, one, other, inOne => inOne, without)
}
