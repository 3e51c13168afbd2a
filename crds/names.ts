/**
 * The names of objects that belong to a database. They are derived from its id, not from its name. So a name of 50
 * characters never makes a label too long. A database that is created again with an old name never finds the old
 * children. Data are found by these names, so names derived from an id never change.
 */
import { timeOfId } from '../values/id.ts'

const digitsOf = (databaseId: string): string => databaseId.replaceAll('-', '')

/**
 * `<name>-<8 digits of the id>`: the host label of a database, and the first label of its domain. The digits
 * distinguish databases with the same name. If the id begins with a time, they are its last digits, otherwise its
 * first. `domain`: the published domain, if any. A database with an older operator's label keeps that label.
 */
export function hostLabel(name: string, databaseId: string, domain?: string): string {
  const digits = digitsOf(databaseId)
  const older = `${name}-${digits.slice(0, 8)}`
  const isOlder = timeOfId(databaseId) === undefined || domain?.startsWith(`${older}.`) === true
  return isOlder ? older : `${name}-${digits.slice(-8)}`
}

const longestLabel = 63

/** The name of a branch, which is also its host label: the database's name, and digits of the branch's id. */
export const branchName = (databaseName: string, branchId: string): string =>
  `${databaseName}-${digitsOf(branchId).slice(-8)}`

/**
 * The host label of a branch. If a user chose the name, the branch's own digits are appended, so that two branches
 * never share a domain.
 */
export function branchHostLabel(name: string, branchId: string): string {
  const digits = `-${digitsOf(branchId).slice(-8)}`
  return name.endsWith(digits) && name.length <= longestLabel && !name.includes('.')
    ? name
    : `${name.replaceAll('.', '-').slice(0, longestLabel - digits.length)}${digits}`
}

const base = (databaseId: string): string => `db-${digitsOf(databaseId).slice(0, 16)}`

/**
 * The members of one incarnation are numbered from 0. As in earlier versions, which had one member, the first member's
 * names have no number.
 */
export const firstMember = 0

/** The prefix of the names of one member's objects. `number`: the member's number within its incarnation. */
const member = (databaseId: string, incarnation: number, number: number): string =>
  `${base(databaseId)}-${incarnation}${number === firstMember ? '' : `-m${number}`}`

/** How many digits of the digest are in the name of a service's Deployment. */
const workloadDigits = 10

export const childNames = {
  service: base,
  /** The StatefulSet of one member. The name of its pod is this name with `-0`. */
  statefulSet: (id: string, incarnation: number, number = firstMember): string => member(id, incarnation, number),
  pod: (id: string, incarnation: number, number = firstMember): string => `${member(id, incarnation, number)}-0`,
  claim: (id: string, incarnation: number, number = firstMember): string => `${member(id, incarnation, number)}-data`,
  configuration: (id: string, incarnation: number, number = firstMember): string =>
    `${member(id, incarnation, number)}-config`,
  /** The Secret with which the agent of a member accesses the archive. */
  archive: (id: string, incarnation: number, number = firstMember): string =>
    `${member(id, incarnation, number)}-archive`,
  /** The Secret with which a member reads its recovery source, until it is recovered. */
  archiveSource: (id: string, incarnation: number, number = firstMember): string =>
    `${member(id, incarnation, number)}-archive-source`,
  credentials: (id: string): string => `${base(id)}-credentials`,
  tls: (id: string): string => `${base(id)}-tls`,
  /** The Service, NetworkPolicy and disruption budget of one service (`mcp`, `rest` or `rag`) of a database. */
  serviceAddress: (id: string, type: string): string => `${base(id)}-${type}`,
  /** The Deployment of a service, and the immutable Secret with its configuration. `digest`: digest of both. */
  serviceWorkload: (id: string, type: string, digest: string): string =>
    `${base(id)}-${type}-${digest.slice(0, workloadDigits)}`,
  /** The credentials that the operator created for a service. `serviceId`: as in the spec. */
  serviceSecret: (id: string, serviceId: string): string => `${base(id)}-s-${serviceId}`,
  /** The password of the service `mcp` for its own database. */
  serviceState: (id: string, serviceId: string): string => `${base(id)}-s-${serviceId}-state`,
  /** The pod that imports a database, its NetworkPolicy, and the Secret that it mounts. */
  import: (id: string): string => `${base(id)}-import`,
  task: (taskId: string): string => `task-${taskId}`,
  /** The VolumeSnapshot of a backup, named by the backup's own id. */
  snapshot: (backupId: string): string => `bkp-${backupId.replaceAll('-', '')}`,
  /** The objects that verify a copy of a backup, named by the backup's own id. */
  verification: (backupId: string): string => `verify-${digitsOf(backupId)}`,
  /** The Backup that a branch is created from, named by the branch's id. */
  prebranch: (branchId: string): string => `prebranch-${digitsOf(branchId)}`,
} as const

/**
 * The immutable Secret that the API wrote with the keys of a service. `random`: 8 hexadecimal digits, new with each
 * change.
 */
export const serviceKeysName = (id: string, random: string): string => `${base(id)}-keys-${random}`

/** A member, parsed from the name of one of its objects. `digits`: the first 16 digits of the owner's id. */
export type NamedMember = { digits: string; incarnation: number; number: number }

const memberPattern = /^db-([0-9a-z]{1,16})-([1-9][0-9]{0,15})(?:-m([1-9][0-9]{0,15}))?(-0|-data|-config)?$/
const suffixes = { statefulSet: undefined, pod: '-0', claim: '-data', configuration: '-config' } as const

/** Parses the name of a member's object: the inverse of `childNames`. Returns undefined for any other name. */
export function parseMemberName(kind: keyof typeof suffixes, name: string): NamedMember | undefined {
  const [, digits, incarnation, number, suffix] = memberPattern.exec(name) ?? []
  if (digits === undefined || suffix !== suffixes[kind]) return undefined
  const named = { digits, incarnation: Number(incarnation), number: Number(number ?? firstMember) }
  return [named.incarnation, named.number].every(Number.isSafeInteger) ? named : undefined
}

/**
 * The number of the member with this claim. A record belongs to the first member if it has no claim, or a claim that a
 * user named.
 */
export const memberOfClaim = (claim: string | undefined): number =>
  (claim === undefined ? undefined : parseMemberName('claim', claim)?.number) ?? firstMember

/** Whether the name belongs to an object of one of this owner's members. */
export const isMemberOf = (named: NamedMember | undefined, databaseId: string): named is NamedMember =>
  named?.digits === digitsOf(databaseId).slice(0, 16)

/** The immutable Secret that the API wrote with the source of an import. */
export const importSourceName = (id: string): string => `${base(id)}-import-source`
