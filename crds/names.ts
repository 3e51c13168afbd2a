/**
 * The names of what belongs to a database. They come from its id, not from its name, so that a name of 50 characters
 * never overflows a label, and a database made anew under an old name never meets its predecessor's children. They are
 * how data is found again: what an id gives never changes.
 */
import { timeOfId } from '../values/id.ts'

const digitsOf = (databaseId: string): string => databaseId.replaceAll('-', '')

/**
 * `<name>-<8 digits of the id>`: the database's host label, and the first label of its domain. The digits tell databases of
 * one name apart: the last ones of an id that begins with the time, else the first ones. `domain`: the one that was told
 * before, if any. A database that an operator of before there were such ids gave a label keeps it.
 */
export function hostLabel(name: string, databaseId: string, domain?: string): string {
  const digits = digitsOf(databaseId)
  const older = `${name}-${digits.slice(0, 8)}`
  const isOlder = timeOfId(databaseId) === undefined || domain?.startsWith(`${older}.`) === true
  return isOlder ? older : `${name}-${digits.slice(-8)}`
}

const longestLabel = 63

/** The name that a branch is given, which is its host label as well: of the database's name, and of its own id. */
export const branchName = (databaseName: string, branchId: string): string =>
  `${databaseName}-${digitsOf(branchId).slice(-8)}`

/** The host label of a branch. One whose name was chosen by hand has its own digits behind it, so that it has nobody else's domain. */
export function branchHostLabel(name: string, branchId: string): string {
  const digits = `-${digitsOf(branchId).slice(-8)}`
  return name.endsWith(digits) && name.length <= longestLabel && !name.includes('.')
    ? name
    : `${name.replaceAll('.', '-').slice(0, longestLabel - digits.length)}${digits}`
}

const base = (databaseId: string): string => `db-${digitsOf(databaseId).slice(0, 16)}`

/** The members of one incarnation are numbered from 0. The first one's names have no number: so were all before there were several. */
export const firstMember = 0

/** What the names of one member's objects begin with. `number`: which of the members that have this incarnation's data. */
const member = (databaseId: string, incarnation: number, number: number): string =>
  `${base(databaseId)}-${incarnation}${number === firstMember ? '' : `-m${number}`}`

/** How many digits of its digest the name of a service's Deployment ends with. */
const workloadDigits = 10

export const childNames = {
  service: base,
  /** The StatefulSet of one member; its pod is this with `-0`. */
  statefulSet: (id: string, incarnation: number, number = firstMember): string => member(id, incarnation, number),
  pod: (id: string, incarnation: number, number = firstMember): string => `${member(id, incarnation, number)}-0`,
  claim: (id: string, incarnation: number, number = firstMember): string => `${member(id, incarnation, number)}-data`,
  configuration: (id: string, incarnation: number, number = firstMember): string =>
    `${member(id, incarnation, number)}-config`,
  credentials: (id: string): string => `${base(id)}-credentials`,
  tls: (id: string): string => `${base(id)}-tls`,
  /** The Service, NetworkPolicy and disruption budget of one service of a database: of `mcp`, `rest` or `rag`. */
  serviceAddress: (id: string, type: string): string => `${base(id)}-${type}`,
  /** The Deployment of a service, and the immutable Secret with its configuration. `digest`: of both. */
  serviceWorkload: (id: string, type: string, digest: string): string =>
    `${base(id)}-${type}-${digest.slice(0, workloadDigits)}`,
  /** What the operator minted for a service. `serviceId`: as the spec has it. */
  serviceSecret: (id: string, serviceId: string): string => `${base(id)}-s-${serviceId}`,
  /** The password by which the service `mcp` logs in to its own database. */
  serviceState: (id: string, serviceId: string): string => `${base(id)}-s-${serviceId}-state`,
  task: (taskId: string): string => `task-${taskId}`,
  /** The VolumeSnapshot of a backup, by the backup's own id. */
  snapshot: (backupId: string): string => `bkp-${backupId.replaceAll('-', '')}`,
  /** What a copy of a backup is checked with, by the backup's own id. */
  verification: (backupId: string): string => `verify-${digitsOf(backupId)}`,
  /** The Backup that a branch is made from, by the branch's id. */
  prebranch: (branchId: string): string => `prebranch-${digitsOf(branchId)}`,
} as const

/** The immutable Secret with the keys of a service that the API wrote. `random`: 8 hexadecimal digits, others with each change. */
export const serviceKeysName = (id: string, random: string): string => `${base(id)}-keys-${random}`

/** A member, as the names of its objects say it. `digits`: the first 16 of its owner's id. */
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

/** The number of the member whose claim has this name; a record without a claim, or of a claim that was named by hand, is of the first. */
export const memberOfClaim = (claim: string | undefined): number =>
  (claim === undefined ? undefined : parseMemberName('claim', claim)?.number) ?? firstMember

/** Whether a name is that of an object of this owner's member, whichever it is. */
export const isMemberOf = (named: NamedMember | undefined, databaseId: string): named is NamedMember =>
  named?.digits === digitsOf(databaseId).slice(0, 16)
