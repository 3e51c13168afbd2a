/**
 * Images of a running pod that another manager changed, as recorded by the API server (managedFields). An entry that
 * also owns the container's name is from the container's creation, so it is ignored. Images that a webhook rewrites in
 * new pods are therefore not edits.
 */
import type { Pod } from '../../../cluster/index.ts'
import type { ManagedFieldsEntry } from '../../../crds/index.ts'
import { isRecord } from '../../../values/record.ts'
import { operatorManager } from '../../objects/foreign-fields.ts'

const within = (value: unknown, field: string): Record<string, unknown> => {
  const inner = isRecord(value) ? value[field] : undefined
  return isRecord(inner) ? inner : {}
}

function editedIn({ fieldsV1 }: ManagedFieldsEntry): string[] {
  const spec = within(fieldsV1, 'f:spec')
  const containers = [within(spec, 'f:initContainers'), within(spec, 'f:containers')].flatMap(Object.entries)
  return containers.flatMap(([element, fields]) => {
    if (!element.startsWith('k:') || !isRecord(fields)) return []
    if (fields['f:image'] === undefined || fields['f:name'] !== undefined) return []
    const [, name] = /"name":"([^"]+)"/.exec(element) ?? []
    return name === undefined ? [] : [name]
  })
}

/** The entries of other managers that changed an image. */
export const imageEdits = (managedFields: readonly ManagedFieldsEntry[] = []): ManagedFieldsEntry[] =>
  managedFields.filter(
    entry => entry.manager !== operatorManager && entry.subresource !== 'status' && editedIn(entry).length > 0,
  )

/** Names of the containers whose image another manager changed. */
export const editedImages = ({ metadata }: Pick<Pod, 'metadata'>): string[] =>
  imageEdits(metadata.managedFields).flatMap(editedIn)
