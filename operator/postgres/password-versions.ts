/**
 * Versions of the roles' passwords: the Secret's uid and, for a role whose password was replaced, its rotation. So a
 * new Secret changes the version for every role, and a rotation changes it for only one role.
 */
import { type DatabaseRole, databaseRoles } from '../../sealing/credentials.ts'

/** The version of all passwords of a Secret together. */
export const passwordsVersion = (uid: string, rotations: Partial<Record<DatabaseRole, string>>): string =>
  [uid, ...databaseRoles.flatMap(role => (rotations[role] === undefined ? [] : [`${role}=${rotations[role]}`]))].join(
    ' ',
  )

/** The part of the version that a role's comment records (ADR 0007). */
export function versionOfRole(version: string, role: DatabaseRole): string {
  const [uid = '', ...rotated] = version.split(' ')
  const own = rotated.find(part => part.startsWith(`${role}=`))
  return own === undefined ? uid : `${uid} ${own}`
}
