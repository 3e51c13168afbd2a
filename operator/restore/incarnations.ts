/** Which volume belongs to which restore, if a database is restored more than once. Pure. */
import { isOpenRestore, type ManagedDatabase, type Restore } from '../../crds/index.ts'

const incarnationOf = ({ status }: Restore): number | undefined => status?.incarnation

/**
 * The number of the volume that remains after a restore: the volume that served before, or its own one that never
 * served. None while the restore runs. Its own volume is ignored if the number now belongs to another restore: numbers
 * without a claim are assigned again.
 */
export function remainingIncarnation(
  restore: Restore,
  database: ManagedDatabase | undefined,
  others: readonly Restore[],
): number | undefined {
  const { switchedAt, previous } = restore.status ?? {}
  const own = incarnationOf(restore)
  if (switchedAt !== undefined) return previous?.incarnation
  const serving = database?.status?.incarnation
  if (isOpenRestore(restore)) return own !== undefined && own === serving ? previous?.incarnation : undefined
  const isAnothers = others.some(other => {
    const hasSwitched = other.status?.switchedAt !== undefined
    const isMade = incarnationOf(other) === own && (hasSwitched || isOpenRestore(other))
    return isMade || (hasSwitched && other.status?.previous?.incarnation === own)
  })
  return own === serving || isAnothers ? undefined : own
}

/**
 * The next number that no claim of the database has, and that none of its restores had: the remaining volume of a
 * restore is identified by its number.
 */
export const freeIncarnation = (ofClaims: readonly number[], restores: readonly Restore[]): number =>
  1 + Math.max(0, ...ofClaims, ...restores.map(restore => incarnationOf(restore) ?? 0))
