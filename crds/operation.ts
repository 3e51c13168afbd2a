/**
 * How the API, which writes what is wanted, and the operator, which makes it so, agree on what is in force: the hash
 * of what was asked. While it differs from `status.appliedHash` the database is `modifying`, so no client ever reads
 * `available` right after its own PATCH, whichever replica answers it.
 *
 * The hash outlives releases: an API and an operator of neighbouring versions compare theirs, and every object carries
 * one that an older operator wrote. How to add something to it:
 *
 * - Add a member to `members` whose `of` gives undefined where an object does not use it, which is the same for a field
 *   that is absent and for one that has its default. Then the text that is hashed is as if there were no such member,
 *   and so is every hash there is.
 * - Never change or remove a member, nor what its `of` gives for an object of today. The golden values in
 *   operation.test.ts stay as they are; add one for an object that uses the new member.
 * - `services` is hashed whole, and the API server writes defaults into what it reads: a field that a service gains is
 *   optional, without a default in its schema.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { uuid } from './fields.ts'
import {
  type DatabasePhase,
  type ManagedDatabase,
  type ManagedDatabaseSpec,
  type OperationName,
  operationName,
} from './managed-database.ts'
import { annotations, type ObjectMeta, type Rotations, rotatedRoles, rotationAnnotations } from './metadata.ts'

/** The annotation `espalier.dev/operation`: what the last asynchronous API write asked for, and its task. */
const operationAnnotation = z.strictObject({
  taskId: uuid,
  name: operationName,
  /** `desiredHash` of the spec written with it: an older annotation is told by a hash that no longer fits. */
  hash: z.string(),
})
export type Operation = z.output<typeof operationAnnotation>

/** A copy with object keys in order. */
function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(ordered)
  if ('toJSON' in value && typeof value.toJSON === 'function') return ordered(value.toJSON())
  const fields = value as Readonly<Record<string, unknown>>
  const result: Record<string, unknown> = {}
  for (const key of Object.keys(fields).sort()) {
    const inner = ordered(fields[key])
    // An assignment to it would set the prototype.
    if (key === '__proto__') Object.defineProperty(result, key, { value: inner, enumerable: true })
    else result[key] = inner
  }
  return result
}

/** JSON with object keys in order, so that equal values have equal text. A replacer of JSON.stringify takes twice the time. */
export const canonicalJson = (value: unknown): string => JSON.stringify(ordered(value))

/** The part of a spec that takes the operator's work to come into force; names and options do not. */
export type Asked = Pick<ManagedDatabaseSpec, 'services' | 'ipAllowlist' | 'size' | 'suspended'> & {
  /** The annotation `espalier.dev/restart`, which stands beside the spec: what asks for a deed is no description. */
  restart?: string | undefined
  /** The annotations that ask for another password, likewise. */
  rotations?: Rotations | undefined
  /** The annotation `espalier.dev/restore`, likewise. */
  restore?: string | undefined
}

/** What a database asks for. */
export const askedBy = ({ spec, metadata }: Pick<ManagedDatabase, 'spec' | 'metadata'>): Asked => ({
  ...spec,
  restart: metadata.annotations?.[annotations.restart],
  rotations: Object.fromEntries(
    rotatedRoles.map(role => [role, metadata.annotations?.[rotationAnnotations[role]]] as const),
  ),
  restore: metadata.annotations?.[annotations.restore],
})

export type Member = {
  /** What is asked; undefined where an object does not use it. */
  of: (spec: Asked) => unknown
  /** What an operation is called that changes nothing but this; by the digest of what is asked, where that decides. */
  operation: OperationName | ((asked: string | undefined) => OperationName)
  /** It asks for a deed, and describes nothing: taken away, it asks for nothing. */
  isDeed?: true
}

function digestOf(value: unknown, length: number): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex').slice(0, length)
}
const digestLength = 16

/** A member for each role, so that one role's rotation that is asked for no more is told from another's. */
const rotationMembers = { admin: 'rotateAdmin', app: 'rotateApp', app_read_only: 'rotateAppReadOnly' } as const

const rotationOf = (role: keyof typeof rotationMembers): Member => ({
  of: ({ rotations }) => rotations?.[role],
  operation: 'rotate-password-managed',
  isDeed: true,
})

const members: Readonly<Record<string, Member>> = {
  services: { of: ({ services }) => services, operation: 'update-managed' },
  cidrs: {
    of: ({ ipAllowlist }) => ipAllowlist.rules.map(rule => rule.cidr),
    operation: 'update-managed-ip-allowlists',
  },
  size: { of: ({ size }) => size, operation: 'update-managed-size' },
  suspended: {
    of: ({ suspended }) => suspended,
    operation: asked => (asked === digestOf(true, digestLength) ? 'suspend-managed' : 'resume-managed'),
  },
  restart: { of: ({ restart }) => restart, operation: 'restart-managed', isDeed: true },
  [rotationMembers.admin]: rotationOf('admin'),
  [rotationMembers.app]: rotationOf('app'),
  [rotationMembers.app_read_only]: rotationOf('app_read_only'),
  restore: { of: ({ restore }) => restore, operation: 'restore-managed', isDeed: true },
}

/** The hash that a version with these members gives a spec. */
export const hashOver = (known: Readonly<Record<string, Member>>, spec: Asked): string =>
  digestOf(Object.fromEntries(Object.entries(known).map(([name, { of }]) => [name, of(spec)])), 32)

/** 32 hexadecimal characters over what is asked. */
export const desiredHash = (spec: Asked): string => hashOver(members, spec)

/** A digest of each member that the object uses, by the member's name. */
export type Digests = Record<string, string>

export function desiredDigests(spec: Asked): Digests {
  const used = Object.entries(members).flatMap(([name, { of }]) => {
    const value = of(spec)
    return value === undefined ? [] : [[name, digestOf(value, digestLength)] as const]
  })
  return Object.fromEntries(used)
}

/** The members that differ, but deeds that are asked for no more. */
function changedMembers(before: Digests, after: Digests): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const isWithdrawn = (name: string): boolean => after[name] === undefined && members[name]?.isDeed === true
  return [...names].filter(name => before[name] !== after[name] && !isWithdrawn(name))
}

/** What the change from one to the other is called: as all that differs is, or by no name of its own where that has several. */
export function operationOfChange(before: Digests, after: Digests): OperationName {
  const names = changedMembers(before, after).map(name => {
    const operation = members[name]?.operation ?? 'update-managed'
    return typeof operation === 'string' ? operation : operation(after[name])
  })
  const [only = 'update-managed', ...others] = new Set(names)
  return others.length > 0 ? 'update-managed' : only
}

/** The digests of what is in force; undefined where no operator of this kind wrote the hash that stands beside them. */
export function appliedDigests({ status }: Pick<ManagedDatabase, 'status'>): Digests | undefined {
  const applied = status?.appliedDigests
  return applied !== undefined && applied.hash === status?.appliedHash ? applied.members : undefined
}

/** Whether all that is asked is in force: by its hash, or since nothing has changed but a deed that is asked for no more. */
export function isInForce(database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>): boolean {
  const asked = askedBy(database)
  if (database.status?.appliedHash === desiredHash(asked)) return true
  const applied = appliedDigests(database)
  return applied !== undefined && changedMembers(applied, desiredDigests(asked)).length === 0
}

/** The member that requests an action which is done once. */
type RequestedAction = 'restart' | 'restore' | (typeof rotationMembers)[keyof typeof rotationMembers]

/**
 * Returns the digest of the request for an action that is still to be done; undefined if there is none. A database that never served
 * has none: it is created with what is requested.
 */
export function pendingRequest(
  database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>,
  action: RequestedAction,
) {
  // Few databases request one, and a hash for each event of a large installation is expensive.
  const spec = askedBy(database)
  if (members[action]?.of(spec) === undefined) return undefined
  if (database.status?.appliedHash === undefined || isInForce(database)) return undefined
  const asked = desiredDigests(spec)[action]
  return asked === appliedDigests(database)?.[action] ? undefined : asked
}

/** The rotations that are still to be done, each with the digest of its request. */
export function awaitedRotations(database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>): Rotations {
  const awaited = rotatedRoles.map(role => [role, pendingRequest(database, rotationMembers[role])] as const)
  return Object.fromEntries(awaited.filter(([, asked]) => asked !== undefined))
}

/** Whether a restore is asked for that has not come to its end, be that what it may. */
export const isRestoreAsked = (database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>): boolean =>
  pendingRequest(database, 'restore') !== undefined

/** The annotation's text, for the API to write. */
export const renderOperation = (operation: Operation): string => JSON.stringify(operation)

/** The operation that an object's annotation names, whether or not it stands for what is asked now. */
export function annotatedOperation({ metadata }: { metadata: ObjectMeta }): Operation | undefined {
  const text = metadata.annotations?.[annotations.operation]
  return text === undefined ? undefined : operationAnnotation.safeParse(parseJson(text)).data
}

/** The operation a database's annotation names, if it stands for what its spec asks now; else undefined. */
export function readOperation(database: ManagedDatabase): Operation | undefined {
  const operation = annotatedOperation(database)
  if (operation === undefined) return undefined
  return operation.name === 'delete-managed' || operation.hash === desiredHash(askedBy(database))
    ? operation
    : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The status that a client sees: what the operator last wrote, unless what was asked has moved on since. */
export function visiblePhase(database: ManagedDatabase): DatabasePhase {
  if (database.metadata.deletionTimestamp !== undefined) return 'deleting'
  const phase = database.status?.phase
  if (phase === undefined) return 'creating'
  if (phase !== 'creating' && isRestoreAsked(database)) return 'restoring'
  const settled = phase === 'available' || phase === 'degraded' || phase === 'suspended'
  if (!settled || isInForce(database)) return phase
  if (phase === 'suspended') return database.spec.suspended ? 'suspended' : 'resuming'
  return database.spec.suspended ? 'suspending' : 'modifying'
}
