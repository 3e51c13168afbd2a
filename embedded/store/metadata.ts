/** Metadata rules for all objects, in the API server's words. */
import { ClusterError } from '../../cluster/errors.ts'
import type { LabelSelector } from '../../cluster/port.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { equal, isList, isObject, listIn, objectIn, textIn } from './json.ts'
import { forbidden, invalid, type Problem, required, wrongType } from './problems.ts'

const namePart = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const labelName = new RegExp(`^${namePart}$`)
const subdomain = new RegExp(`^${namePart}(\\.${namePart})*$`)
const qualified = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/

const subdomainRule =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
const labelRule =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
const qualifiedRule =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
const labelValueRule =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"

/** The fields of ObjectMeta and their JSON types. */
const fieldTypes: { readonly [field: string]: string } = {
  name: 'string',
  generateName: 'string',
  namespace: 'string',
  selfLink: 'string',
  uid: 'string',
  resourceVersion: 'string',
  generation: 'integer',
  creationTimestamp: 'string',
  deletionTimestamp: 'string',
  deletionGracePeriodSeconds: 'integer',
  labels: 'object',
  annotations: 'object',
  finalizers: 'array',
  ownerReferences: 'array',
  managedFields: 'array',
}
const ownerFields = new Set(['apiVersion', 'kind', 'name', 'uid', 'controller', 'blockOwnerDeletion'])
const annotationsLimit = 256 * 1024

/** Whether a text is a valid RFC 1123 subdomain. */
const isSubdomain = (text: string): boolean => text.length <= 253 && subdomain.test(text)
const isLabelName = (text: string): boolean => text.length <= 63 && labelName.test(text)

/** Unknown fields of the metadata. */
export function unknownMetadata(object: JsonObject): string[] {
  const owners = listIn(object.metadata, 'ownerReferences').flatMap((owner, index) =>
    Object.keys(isObject(owner) ? owner : {})
      .filter(field => !ownerFields.has(field))
      .map(field => `metadata.ownerReferences[${index}].${field}`),
  )
  const fields = Object.keys(objectIn(object, 'metadata')).filter(field => !Object.hasOwn(fieldTypes, field))
  return [...fields.map(field => `metadata.${field}`), ...owners]
}

/** Metadata fields of the wrong type. If there are any, the store cannot check the other metadata rules. */
export function metadataTypes(object: JsonObject): Problem[] {
  if (!isObject(object.metadata)) return [required('metadata')]
  const { metadata } = object
  const problems: Problem[] = []
  for (const [field, type] of Object.entries(fieldTypes)) {
    const value = metadata[field]
    if (value !== undefined && typeName(value) !== type) problems.push(wrongType(`metadata.${field}`, value, type))
  }
  for (const field of ['labels', 'annotations']) {
    for (const [key, value] of Object.entries(objectIn(metadata, field))) {
      if (typeof value !== 'string') problems.push(wrongType(`metadata.${field}.${key}`, value, 'string'))
    }
  }
  for (const [index, finalizer] of listIn(metadata, 'finalizers').entries()) {
    if (typeof finalizer !== 'string') problems.push(wrongType(`metadata.finalizers[${index}]`, finalizer, 'string'))
  }
  for (const [index, owner] of listIn(metadata, 'ownerReferences').entries()) {
    if (!isObject(owner)) problems.push(wrongType(`metadata.ownerReferences[${index}]`, owner, 'object'))
  }
  return problems
}

const typeName = (value: JsonValue): string => {
  if (isList(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

/** Rules for names, labels, annotations, finalizers and owners. */
export function checkMetadata({ metadata }: JsonObject, kind: string, namespaced: boolean): Problem[] {
  return [
    ...checkName(textIn(metadata, 'name'), kind),
    ...checkNamespace(textIn(metadata, 'namespace'), namespaced),
    ...checkLabels(objectIn(metadata, 'labels'), 'metadata.labels'),
    ...checkAnnotations(objectIn(metadata, 'annotations')),
    ...checkFinalizers(listIn(metadata, 'finalizers')),
    ...checkOwners(listIn(metadata, 'ownerReferences')),
  ]
}

function checkName(name: string | undefined, kind: string): Problem[] {
  if (name === undefined || name === '') return [required('metadata.name', 'name is required')]
  if (kind === 'Namespace' || kind === 'Service') {
    return isLabelName(name) ? [] : [invalid('metadata.name', name, labelRule)]
  }
  return isSubdomain(name) ? [] : [invalid('metadata.name', name, subdomainRule)]
}

function checkNamespace(namespace: string | undefined, namespaced: boolean): Problem[] {
  if (!namespaced) return namespace ? [forbidden('metadata.namespace', 'not allowed on this type')] : []
  if (!namespace) return [required('metadata.namespace')]
  return isLabelName(namespace) ? [] : [invalid('metadata.namespace', namespace, labelRule)]
}

/** Checks label keys and values, in metadata or in a selector. */
function checkLabels(labels: JsonObject, path: string): Problem[] {
  return Object.entries(labels).flatMap(([key, value]) => {
    const problems = checkQualifiedName(key, path)
    if (typeof value !== 'string') return problems
    if (value.length > 63) problems.push(invalid(path, value, 'must be no more than 63 bytes'))
    else if (value !== '' && !qualified.test(value)) problems.push(invalid(path, value, labelValueRule))
    return problems
  })
}

/**
 * @throws ClusterError `BadRequest` for a selector that is not a valid label, because it would select other objects
 * than intended
 */
export function requireSelector(selector: LabelSelector | undefined): void {
  if (selector === undefined) return
  const labels = Object.entries(selector).map(([label, value]) => [label, value === true ? '' : value])
  const [problem] = checkLabels(Object.fromEntries(labels), 'labelSelector')
  if (problem !== undefined) throw new ClusterError('BadRequest', problem.text)
}

function checkAnnotations(annotations: JsonObject): Problem[] {
  const problems = Object.keys(annotations).flatMap(key =>
    checkQualifiedName(key.toLowerCase(), 'metadata.annotations'),
  )
  let bytes = 0
  for (const [key, value] of Object.entries(annotations)) {
    bytes += Buffer.byteLength(key) + (typeof value === 'string' ? Buffer.byteLength(value) : 0)
  }
  if (bytes > annotationsLimit) {
    problems.push({
      text: `metadata.annotations: Too long: may not be more than ${annotationsLimit} bytes`,
      blocking: true,
    })
  }
  return problems
}

function checkQualifiedName(key: string, path: string): Problem[] {
  const slash = key.indexOf('/')
  const prefix = slash === -1 ? undefined : key.slice(0, slash)
  const name = key.slice(slash + 1)
  const problems: Problem[] = []
  if (prefix !== undefined && !isSubdomain(prefix)) {
    problems.push(invalid(path, key, `prefix part ${subdomainRule}`))
  }
  if (name === '') problems.push(invalid(path, key, 'name part must be non-empty'))
  else if (name.length > 63) problems.push(invalid(path, key, 'name part must be no more than 63 bytes'))
  else if (!qualified.test(name)) problems.push(invalid(path, key, qualifiedRule))
  return problems
}

function checkFinalizers(finalizers: readonly JsonValue[]): Problem[] {
  const path = 'metadata.finalizers'
  const problems = finalizers.flatMap(each => (typeof each === 'string' ? checkQualifiedName(each, path) : []))
  if (finalizers.includes('orphan') && finalizers.includes('foregroundDeletion')) {
    problems.push(invalid(path, finalizers, 'finalizer orphan and foregroundDeletion cannot be both set'))
  }
  return problems
}

function checkOwners(owners: readonly JsonValue[]): Problem[] {
  const problems = owners.flatMap((owner, index) =>
    ['apiVersion', 'kind', 'name', 'uid']
      .filter(field => !textIn(owner, field))
      .map(field => invalid(`metadata.ownerReferences[${index}].${field}`, '', 'must not be empty')),
  )
  if (owners.filter(owner => isObject(owner) && owner.controller === true).length > 1) {
    problems.push(invalid('metadata.ownerReferences', owners, 'Only one reference can have Controller set to true'))
  }
  return problems
}

/** Metadata changes that an update may not make. */
export function checkMetadataUpdate(next: JsonObject, current: JsonObject): Problem[] {
  const before = objectIn(current, 'metadata')
  const after = objectIn(next, 'metadata')
  const problems: Problem[] = []
  for (const field of ['name', 'namespace', 'uid', 'creationTimestamp', 'deletionTimestamp']) {
    if (!equal(after[field], before[field])) {
      problems.push(invalid(`metadata.${field}`, after[field] ?? '', 'field is immutable'))
    }
  }
  if (before.deletionTimestamp !== undefined) {
    const old = listIn(before, 'finalizers')
    const added = listIn(after, 'finalizers').filter(finalizer => !old.includes(finalizer))
    if (added.length > 0) {
      problems.push(
        forbidden(
          'metadata.finalizers',
          `no new finalizers can be added if the object is being deleted, found new finalizers ${added.join(', ')}`,
        ),
      )
    }
  }
  return problems
}
