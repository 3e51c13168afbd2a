/**
 * Field ownership: the entries of `metadata.managedFields`, and how a write changes them. After an update, the writer
 * owns the fields that it changed. After an apply, the writer owns exactly the fields that it set. The previous owner
 * loses a changed field, because every apply here is forced.
 */
import type { ManagedFieldsEntry } from '../../crds/metadata.ts'
import { difference, emptySet, type FieldSet, isEmpty, union, without } from './fields.ts'
import { equal, type JsonObject } from './json.ts'
import type { Comparison } from './merge.ts'

/** The writer, and the time of the write. */
export type Writer = {
  readonly manager: string
  readonly operation: 'Apply' | 'Update'
  readonly apiVersion: string
  readonly subresource?: 'status'
  readonly time: string
}

const setOf = (entry: ManagedFieldsEntry | undefined): FieldSet =>
  entry === undefined ? emptySet : (entry.fieldsV1 as JsonObject)

const isOf = (entry: ManagedFieldsEntry, writer: Writer): boolean =>
  entry.manager === writer.manager &&
  entry.operation === writer.operation &&
  entry.apiVersion === writer.apiVersion &&
  entry.subresource === writer.subresource

/** Fields that the writer owned before. */
export const ownedBy = (entries: readonly ManagedFieldsEntry[], writer: Writer): FieldSet =>
  setOf(entries.find(entry => isOf(entry, writer)))

/** Fields that other managers own. */
export const ownedByOthers = (entries: readonly ManagedFieldsEntry[], writer: Writer): FieldSet =>
  entries
    .filter(entry => !isOf(entry, writer))
    .map(setOf)
    .reduce(union, emptySet)

/** The entries after a create, replace or replaceStatus by the writer. */
export function afterUpdate(
  entries: readonly ManagedFieldsEntry[],
  writer: Writer,
  { changed, removed }: Comparison,
): ManagedFieldsEntry[] {
  if (isEmpty(changed) && isEmpty(removed)) return [...entries]
  const own = union(without(ownedBy(entries, writer), removed), changed)
  return assemble(entries, writer, own, { changed, removed }, isEmpty(changed))
}

/** The entries after an apply of exactly these fields. */
export function afterApply(
  entries: readonly ManagedFieldsEntry[],
  writer: Writer,
  applied: FieldSet,
  comparison: Comparison,
): ManagedFieldsEntry[] {
  const unchanged = isEmpty(comparison.changed) && isEmpty(comparison.removed)
  return assemble(entries, writer, applied, comparison, unchanged && equal(ownedBy(entries, writer), applied))
}

function assemble(
  entries: readonly ManagedFieldsEntry[],
  writer: Writer,
  own: FieldSet,
  { changed, removed }: Comparison,
  keepTime: boolean,
): ManagedFieldsEntry[] {
  const before = entries.find(entry => isOf(entry, writer))
  const { time, ...identity } = writer
  const ownEntry: ManagedFieldsEntry = {
    ...identity,
    time: keepTime && before?.time !== undefined ? before.time : time,
    fieldsType: 'FieldsV1',
    fieldsV1: own,
  }
  const result: ManagedFieldsEntry[] = []
  for (const entry of entries) {
    if (entry === before) result.push(ownEntry)
    else result.push({ ...entry, fieldsV1: without(difference(setOf(entry), changed), removed) })
  }
  if (before === undefined) result.push(ownEntry)
  return result.filter(entry => !isEmpty(setOf(entry)))
}
