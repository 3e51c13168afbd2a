/**
 * The names of what belongs to a database. They come from its id, not from its name, so that a name of 50 characters
 * never overflows a label, and a database made anew under an old name never meets its predecessor's children. They are
 * how data is found again: what an id gives never changes.
 */
// @ts-nocheck

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

const base = (databaseId: string): string => `db-${digitsOf(databaseId).slice(0, 16)}`

export const childNames = {
  service: base,
  /** The StatefulSet of one incarnation; its pod is this with `-0`. */
  statefulSet: (id: string, incarnation: number): string => `${base(id)}-${incarnation}`,
  pod: (id: string, incarnation: number): string => `${base(id)}-${incarnation}-0`,
  claim: (id: string, incarnation: number): string => `${base(id)}-${incarnation}-data`,
  configuration: (id: string, incarnation: number): string => `${base(id)}-${incarnation}-config`,
  credentials: (id: string): string => `${base(id)}-credentials`,
  tls: (id: string): string => `${base(id)}-tls`,
  task: (taskId: string): string => `task-${taskId}`,
  /** The VolumeSnapshot of a backup, by the backup's own id. */
  snapshot: (backupId: string): string => `bkp-${backupId.replaceAll('-', '')}`,
} as const
