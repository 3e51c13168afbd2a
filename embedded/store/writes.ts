/**
 * Pure functions that compute a write's result from the stored object, the request, the field manager and the time.
 * Each function refuses the writes that the API server refuses. The committer sets the resourceVersion.
 */
import { randomUUID } from 'node:crypto'
import { ClusterError } from '../../cluster/errors.ts'
import type { ManagedFieldsEntry, ObjectMeta } from '../../crds/metadata.ts'
import { timestamp } from '../../values/time.ts'
import { union } from './fields.ts'
import { internEntries } from './intern.ts'
import { copyJson, equal, isObject, type JsonObject, type JsonValue, objectIn, share, withField } from './json.ts'
import { afterApply, afterUpdate, ownedBy, ownedByOthers, type Writer } from './managers.ts'
import { compare, fieldsOf, merge, prune } from './merge.ts'
import { checkMetadata, checkMetadataUpdate, metadataTypes, unknownMetadata } from './metadata.ts'
import { metadataOf, withMetadata } from './objects.ts'
import { required } from './problems.ts'
import { conflict, invalidObject, modified, notFound, otherUid, unknownFieldsRefusal } from './refusals.ts'
import type { Resource } from './resource.ts'

/** The writer, the object's kind, and the time. */
export type WriteContext = { readonly resource: Resource; readonly manager: string; readonly now: number }

/** Result of a write: the new object, or the last state of a deleted one. */
export type Outcome = { readonly object: JsonObject; readonly isDeleted: boolean }

/** Copies a caller's object. Checks its kind and the types of its metadata. */
export function receive(resource: Resource, input: unknown): JsonObject {
  const object = copyJson(input)
  if (!isObject(object)) throw new ClusterError('BadRequest', 'the body must be an object')
  const { info, kind } = resource
  if (object.apiVersion !== info.apiVersion || object.kind !== kind) {
    const given = `${object.kind} (${object.apiVersion})`
    throw new ClusterError('BadRequest', `the object is a ${given}; expected a ${kind} (${info.apiVersion})`)
  }
  const metadata = objectIn(object, 'metadata')
  const present = Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== null))
  const received = isObject(object.metadata) ? { ...object, metadata: present } : object
  const name = typeof metadata.name === 'string' ? metadata.name : ''
  const problems = metadataTypes(received)
  if (problems.length > 0) throw invalidObject(resource, name, problems)
  return received
}

/** A new object. Overwrites fields that only the server sets. */
export function created(context: WriteContext, draft: JsonObject): JsonObject {
  if (metadataOf(draft).resourceVersion) {
    throw new ClusterError('BadRequest', 'resourceVersion should not be set on objects to be created')
  }
  const object = accept(context.resource, asNew(context, draft))
  const comparison = compare(context.resource.shape, {}, ownable(object, 'main'))
  const managedFields = internEntries(afterUpdate([], writerOf(context, 'Update'), comparison))
  return withMetadata(object, { managedFields })
}

function asNew({ resource, now }: WriteContext, draft: JsonObject): JsonObject {
  const object = withMetadata(draft, {
    uid: randomUUID(),
    creationTimestamp: timestamp(now),
    generation: resource.generation === 'none' ? undefined : 1,
    resourceVersion: undefined,
    deletionTimestamp: undefined,
    deletionGracePeriodSeconds: undefined,
    managedFields: undefined,
    finalizers: withFinalizers(metadataOf(draft).finalizers, resource.finalizers),
  })
  return resource.info.statusSubresource ? withField(object, 'status', resource.initialStatus) : object
}

const withFinalizers = (given: string[] | undefined, requiredFinalizers: readonly string[]): string[] | undefined =>
  requiredFinalizers.length === 0 ? given : [...new Set([...(given ?? []), ...requiredFinalizers])]

/** The object as the client sent it, with the stored status. */
export function replaced(context: WriteContext, current: JsonObject, input: JsonObject): Outcome {
  const { resource } = context
  guard(resource, current, input, 'required')
  const before = metadataOf(current)
  const sent = withMetadata(input, {
    ...systemFields(before),
    creationTimestamp: metadataOf(input).creationTimestamp ?? before.creationTimestamp,
    deletionTimestamp: metadataOf(input).deletionTimestamp ?? before.deletionTimestamp,
  })
  const next = resource.info.statusSubresource ? withField(sent, 'status', current.status) : sent
  const object = accept(resource, next, current)
  const comparison = compare(resource.shape, ownable(current, 'main'), ownable(object, 'main'))
  const managedFields = afterUpdate(before.managedFields ?? [], writerOf(context, 'Update'), comparison)
  return finish(resource, current, object, managedFields)
}

/** The stored object with the status that the client sent. */
export function withStatus(context: WriteContext, current: JsonObject, input: JsonObject): Outcome {
  const { resource } = context
  if (!resource.info.statusSubresource) throw notFound(resource, `${metadataOf(input).name}/status`)
  guard(resource, current, input, 'required')
  const object = accept(resource, withField(current, 'status', input.status), current)
  const comparison = compare(resource.shape, ownable(current, 'status'), ownable(object, 'status'))
  const writer = { ...writerOf(context, 'Update'), subresource: 'status' as const }
  return finish(resource, current, object, afterUpdate(metadataOf(current).managedFields ?? [], writer, comparison))
}

/** Server-side apply with force, on the stored object or for a new object. */
export function applied(context: WriteContext, current: JsonObject | undefined, draft: JsonObject): Outcome {
  const { resource } = context
  if (metadataOf(draft).managedFields !== undefined) {
    throw new ClusterError('BadRequest', 'metadata.managedFields must be nil')
  }
  if (current !== undefined) guard(resource, current, draft, 'optional')
  else refuseUid(resource, draft)
  const writer = writerOf(context, 'Apply')
  const entries = current === undefined ? [] : (metadataOf(current).managedFields ?? [])
  const wanted = ownable(draft, 'main')
  const live = current === undefined ? {} : ownable(current, 'main')
  const set = fieldsOf(resource.shape, wanted)
  const merged = merge(resource.shape, live, wanted)
  const owned = union(set, ownedByOthers(entries, writer))
  // An unchanged value stays the identical object, so that later steps can skip it.
  const pruned = share(live, prune(resource.shape, merged, ownedBy(entries, writer), owned))
  const base = isObject(pruned) ? pruned : {}
  const managedFields = afterApply(entries, writer, set, compare(resource.shape, live, base))
  if (current === undefined) {
    const object = accept(resource, asNew(context, rebuild(draft, base)))
    return { object: withMetadata(object, { managedFields: internEntries(managedFields) }), isDeleted: false }
  }
  const rebuilt = withField(rebuild(draft, base), 'status', current.status)
  const next = withMetadata(rebuilt, systemFields(metadataOf(current)))
  return finish(resource, current, accept(resource, next, current), managedFields)
}

/** The complete object, built from the part that field managers own. */
function rebuild({ apiVersion, kind, metadata }: JsonObject, part: JsonObject): JsonObject {
  const { name, namespace } = objectIn({ metadata: metadata ?? {} }, 'metadata')
  const identity = { ...(name === undefined ? {} : { name }), ...(namespace === undefined ? {} : { namespace }) }
  return {
    apiVersion: apiVersion ?? '',
    kind: kind ?? '',
    ...part,
    metadata: { ...objectIn(part, 'metadata'), ...identity },
  }
}

/** Sets the deletion timestamp of an object whose finalizers delay its deletion. */
export function withDeletionTimestamp(resource: Resource, current: JsonObject, now: number): JsonObject {
  const { generation } = metadataOf(current)
  const object = withMetadata(current, {
    deletionTimestamp: timestamp(now),
    deletionGracePeriodSeconds: 0,
    generation: generation === undefined ? undefined : generation + 1,
  })
  return resource.kind === 'Namespace'
    ? { ...object, status: { ...objectIn(object, 'status'), phase: 'Terminating' } }
    : object
}

/** Metadata that a client cannot set. */
const systemFields = (before: ObjectMeta) => ({
  uid: before.uid,
  resourceVersion: before.resourceVersion,
  generation: before.generation,
  creationTimestamp: before.creationTimestamp,
  deletionTimestamp: before.deletionTimestamp,
  deletionGracePeriodSeconds: before.deletionGracePeriodSeconds,
  managedFields: before.managedFields,
})

const writerOf = ({ resource, manager, now }: WriteContext, operation: Writer['operation']): Writer => ({
  manager,
  operation,
  apiVersion: resource.info.apiVersion,
  time: timestamp(now),
})

/** Refuses a write that names another version, or the uid of another object with the same name. */
function guard(resource: Resource, current: JsonObject, input: JsonObject, version: 'required' | 'optional'): void {
  const sent = metadataOf(input)
  const stored = metadataOf(current)
  if (sent.uid && sent.uid !== stored.uid) throw conflict(resource, stored.name, otherUid(sent.uid, stored.uid))
  if (!sent.resourceVersion && version === 'required') {
    const problem = required('metadata.resourceVersion', 'must be specified for an update')
    throw invalidObject(resource, stored.name, [problem])
  }
  if (sent.resourceVersion && sent.resourceVersion !== stored.resourceVersion) {
    throw conflict(resource, stored.name, modified)
  }
}

/** An apply with a uid requires an existing object. An apply with only a resourceVersion also creates the object. */
function refuseUid(resource: Resource, draft: JsonObject): void {
  const { name, uid } = metadataOf(draft)
  if (uid) throw conflict(resource, name, otherUid(uid, undefined))
}

/**
 * Returns the object with its defaults, sharing unchanged parts with the previous version. Refuses an invalid object.
 */
function accept(resource: Resource, object: JsonObject, previous?: JsonObject): JsonObject {
  const { name = '' } = metadataOf(object)
  const unknown = [...unknownMetadata(object), ...resource.unknownFields(object)]
  if (unknown.length > 0) throw unknownFieldsRefusal(resource, name, unknown)
  const next = asObject(share(previous, resource.complete(object)))
  const problems = [
    ...(next.metadata === previous?.metadata ? [] : checkMetadata(next, resource.kind, resource.info.namespaced)),
    ...(previous === undefined ? [] : checkMetadataUpdate(next, previous)),
    ...resource.validate(next, previous),
  ]
  if (problems.length > 0) throw invalidObject(resource, name, problems)
  return next
}

const asObject = (value: JsonValue): JsonObject => (isObject(value) ? value : {})

/** The result of an update; the current object itself if nothing changed. */
function finish(
  resource: Resource,
  current: JsonObject,
  object: JsonObject,
  managedFields: ManagedFieldsEntry[],
): Outcome {
  const before = metadataOf(current)
  // The entries are JSON, but their type has no index signature.
  const sameOwners = equal(managedFields as unknown as JsonValue, before.managedFields as unknown as JsonValue)
  if (object === current && sameOwners) return { object: current, isDeleted: false }
  const generation = before.generation
  const bumped =
    generation !== undefined && countsForGeneration(resource, current, object) ? generation + 1 : generation
  const next = withMetadata(object, {
    generation: bumped,
    managedFields: sameOwners ? before.managedFields : internEntries(managedFields),
  })
  const { deletionTimestamp, finalizers = [] } = metadataOf(next)
  // The collector removes a namespace once it is empty.
  const isDeleted = deletionTimestamp !== undefined && finalizers.length === 0 && resource.kind !== 'Namespace'
  return { object: next, isDeleted }
}

function countsForGeneration({ generation }: Resource, current: JsonObject, object: JsonObject): boolean {
  if (generation === 'spec') return object.spec !== current.spec
  const counted = Object.keys({ ...current, ...object }).filter(field => field !== 'metadata' && field !== 'status')
  return counted.some(field => object[field] !== current[field])
}

/** The part of an object that field managers own, through the main resource or its status subresource. */
function ownable(object: JsonObject, part: 'main' | 'status'): JsonObject {
  if (part === 'status') return object.status === undefined ? {} : { status: object.status }
  const { apiVersion: _a, kind: _k, status: _s, metadata, ...rest } = object
  const { labels, annotations, finalizers, ownerReferences } = objectIn({ metadata: metadata ?? {} }, 'metadata')
  const own = Object.fromEntries(
    Object.entries({ labels, annotations, finalizers, ownerReferences }).filter(([, value]) => value !== undefined),
  )
  return Object.keys(own).length === 0 ? rest : { ...rest, metadata: asObject(own as JsonValue) }
}
