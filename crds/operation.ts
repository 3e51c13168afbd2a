/**
 * The API writes the desired state, and the operator applies it. A hash of the request shows them what is applied.
 * While it differs from `status.appliedHash`, the database is `modifying`. So no client reads `available` right after
 * its own PATCH, whichever replica answers.
 *
 * The hash outlives releases: an API and an operator of neighbouring versions compare their hashes, and every object
 * has one that an older operator wrote. To add something to the hash:
 *
 * - Add a member to `members` whose `of` returns undefined if an object does not use it. An absent field and a field
 *   with its default must give the same. Then the hashed text is as without the member, and existing hashes do not
 *   change.
 * - Never change or remove a member, nor the result of its `of` for existing objects. Keep the golden values in
 *   operation.test.ts; add one for an object that uses the new member.
 * - `services` is hashed completely, and the API server writes defaults into what it reads: a new field of a service is
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

/**
 * The annotation `espalier.dev/operation`: the operation that the last asynchronous API write requested, and its task.
 */
const operationAnnotation = z.strictObject({
  taskId: uuid,
  name: operationName,
  /**
   * `desiredHash` of the spec that was written with this annotation. If the hash no longer matches, the annotation is
   * outdated.
   */
  hash: z.string(),
})
export type Operation = z.output<typeof operationAnnotation>

/** A copy in which the keys of objects are in order. */
function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(ordered)
  if ('toJSON' in value && typeof value.toJSON === 'function') return ordered(value.toJSON())
  const fields = value as Readonly<Record<string, unknown>>
  const result: Record<string, unknown> = {}
  for (const key of Object.keys(fields).sort()) {
    const inner = ordered(fields[key])
    // An assignment to this key would set the object's prototype.
    if (key === '__proto__') Object.defineProperty(result, key, { value: inner, enumerable: true })
    else result[key] = inner
  }
  return result
}

/**
 * JSON with object keys in order, so that equal values have equal text. A replacer for JSON.stringify would take twice
 * the time.
 */
export const canonicalJson = (value: unknown): string => JSON.stringify(ordered(value))

/** The parts of a spec that the operator must apply. Not the names and options. */
export type DesiredState = Pick<ManagedDatabaseSpec, 'services' | 'ipAllowlist' | 'size' | 'suspended'> & {
  /**
   * The annotation `espalier.dev/restart`. It is not in the spec, because a request for an action is not a desired
   * state.
   */
  restart?: string | undefined
  /** The annotations that request a new password. Not in the spec for the same reason. */
  rotations?: Rotations | undefined
  /** The annotation `espalier.dev/restore`. Not in the spec for the same reason. */
  restore?: string | undefined
}

/** Everything that a database requests. */
export const desiredStateOf = ({ spec, metadata }: Pick<ManagedDatabase, 'spec' | 'metadata'>): DesiredState => ({
  ...spec,
  restart: metadata.annotations?.[annotations.restart],
  rotations: Object.fromEntries(
    rotatedRoles.map(role => [role, metadata.annotations?.[rotationAnnotations[role]]] as const),
  ),
  restore: metadata.annotations?.[annotations.restore],
})

export type Member = {
  /** The requested value. Undefined if an object does not use the member. */
  of: (spec: DesiredState) => unknown
  /**
   * The name of an operation that changes only this member. A function if the digest of the requested value determines
   * the name.
   */
  operation: OperationName | ((desired: string | undefined) => OperationName)
  /** The member requests an action, not a state. Its removal requests nothing. */
  isAction?: true
}

function digestOf(value: unknown, length: number): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex').slice(0, length)
}
const digestLength = 16

/** One member per role, so that the withdrawn rotation of one role differs from another role's rotation. */
const rotationMembers = { admin: 'rotateAdmin', app: 'rotateApp', app_read_only: 'rotateAppReadOnly' } as const

const rotationOf = (role: keyof typeof rotationMembers): Member => ({
  of: ({ rotations }) => rotations?.[role],
  operation: 'rotate-password-managed',
  isAction: true,
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
    operation: desired => (desired === digestOf(true, digestLength) ? 'suspend-managed' : 'resume-managed'),
  },
  restart: { of: ({ restart }) => restart, operation: 'restart-managed', isAction: true },
  [rotationMembers.admin]: rotationOf('admin'),
  [rotationMembers.app]: rotationOf('app'),
  [rotationMembers.app_read_only]: rotationOf('app_read_only'),
  restore: { of: ({ restore }) => restore, operation: 'restore-managed', isAction: true },
}

/** The hash that a version with these members computes for a spec. */
export const hashOver = (known: Readonly<Record<string, Member>>, spec: DesiredState): string =>
  digestOf(Object.fromEntries(Object.entries(known).map(([name, { of }]) => [name, of(spec)])), 32)

/** 32 hexadecimal characters: the hash of everything requested. */
export const desiredHash = (spec: DesiredState): string => hashOver(members, spec)

/** A digest of each member that the object uses, by the member's name. */
export type Digests = Record<string, string>

export function desiredDigests(spec: DesiredState): Digests {
  const used = Object.entries(members).flatMap(([name, { of }]) => {
    const value = of(spec)
    return value === undefined ? [] : [[name, digestOf(value, digestLength)] as const]
  })
  return Object.fromEntries(used)
}

/** The members that differ. Without actions whose request was withdrawn. */
function changedMembers(before: Digests, after: Digests): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const isWithdrawn = (name: string): boolean => after[name] === undefined && members[name]?.isAction === true
  return [...names].filter(name => before[name] !== after[name] && !isWithdrawn(name))
}

/**
 * The name of the operation that makes this change; `update-managed` if the differing members have different
 * operations.
 */
export function operationOfChange(before: Digests, after: Digests): OperationName {
  const names = changedMembers(before, after).map(name => {
    const operation = members[name]?.operation ?? 'update-managed'
    return typeof operation === 'string' ? operation : operation(after[name])
  })
  const [only = 'update-managed', ...others] = new Set(names)
  return others.length > 0 ? 'update-managed' : only
}

/** The digests of the applied request. Undefined if the operator that wrote appliedHash wrote no digests for it. */
export function appliedDigests({ status }: Pick<ManagedDatabase, 'status'>): Digests | undefined {
  const applied = status?.appliedDigests
  return applied !== undefined && applied.hash === status?.appliedHash ? applied.members : undefined
}

/**
 * Whether the complete request is applied: the hashes match, or they differ only by an action whose request was
 * withdrawn.
 */
export function isInForce(database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>): boolean {
  const desired = desiredStateOf(database)
  if (database.status?.appliedHash === desiredHash(desired)) return true
  const applied = appliedDigests(database)
  return applied !== undefined && changedMembers(applied, desiredDigests(desired)).length === 0
}

/** The member that requests an action that is executed once. */
type RequestedAction = 'restart' | 'restore' | (typeof rotationMembers)[keyof typeof rotationMembers]

/**
 * Returns the digest of the request for a pending action. Undefined if there is none. A database that never served has
 * none, because it is created with its complete request.
 */
export function pendingRequest(
  database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>,
  action: RequestedAction,
) {
  // Few databases request an action. Computing a hash for each event of a large installation is expensive.
  const spec = desiredStateOf(database)
  if (members[action]?.of(spec) === undefined) return undefined
  if (database.status?.appliedHash === undefined || isInForce(database)) return undefined
  const desired = desiredDigests(spec)[action]
  return desired === appliedDigests(database)?.[action] ? undefined : desired
}

/** The pending rotations, each with the digest of its request. */
export function awaitedRotations(database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>): Rotations {
  const awaited = rotatedRoles.map(role => [role, pendingRequest(database, rotationMembers[role])] as const)
  return Object.fromEntries(awaited.filter(([, desired]) => desired !== undefined))
}

/** Whether a requested restore has not ended yet, with or without success. */
export const isRestoreRequested = (database: Pick<ManagedDatabase, 'spec' | 'metadata' | 'status'>): boolean =>
  pendingRequest(database, 'restore') !== undefined

/** The annotation's text, for the API to write. */
export const renderOperation = (operation: Operation): string => JSON.stringify(operation)

/** The operation that an object's annotation names, even if it does not match the current request. */
export function annotatedOperation({ metadata }: { metadata: ObjectMeta }): Operation | undefined {
  const text = metadata.annotations?.[annotations.operation]
  return text === undefined ? undefined : operationAnnotation.safeParse(parseJson(text)).data
}

/** The operation that a database's annotation names. Undefined if it does not match the current spec. */
export function readOperation(database: ManagedDatabase): Operation | undefined {
  const operation = annotatedOperation(database)
  if (operation === undefined) return undefined
  return operation.name === 'delete-managed' || operation.hash === desiredHash(desiredStateOf(database))
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

/** The phase that a client sees: the phase that the operator last wrote, unless the request has changed since. */
export function visiblePhase(database: ManagedDatabase): DatabasePhase {
  if (database.metadata.deletionTimestamp !== undefined) return 'deleting'
  const phase = database.status?.phase
  if (phase === undefined) return 'creating'
  if (phase !== 'creating' && isRestoreRequested(database)) return 'restoring'
  const isStable = phase === 'available' || phase === 'degraded' || phase === 'suspended'
  if (!isStable || isInForce(database)) return phase
  if (phase === 'suspended') return database.spec.suspended ? 'suspended' : 'resuming'
  return database.spec.suspended ? 'suspending' : 'modifying'
}
