/**
 * What names the passwords that roles have been given: the uid of the Secret they stand in, and for a role whose password
 * was replaced since, its rotation. So another Secret is new to every role, and one role's rotation to no other.
 */
import { type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'

/** The mark of a Secret's passwords as a whole. */
export const passwordsMark = (uid: string, rotations: Partial<Record<DatabaseRole, string>>): string =>
  [uid, ...databaseRoles.flatMap(role => (rotations[role] === undefined ? [] : [`${role}=${rotations[role]}`]))].join(
    ' ',
  )

/** The part of it that a role's comment records (ADR 0007). */
export function markOfRole(mark: string, role: DatabaseRole): string {
  const [uid = '', ...rotated] = mark.split(' ')
  const own = rotated.find(part => part.startsWith(`${role}=`))
  return own === undefined ? uid : `${uid} ${own}`
}
