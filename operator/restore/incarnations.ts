/** Assigns volume numbers (incarnations) to the restores of a database. Pure. */
import { isOpenRestore, type ManagedDatabase, type Restore } from '../../crds/index.ts'

const incarnationOf = ({ status }: Restore): number | undefined => status?.incarnation

/**
 * Returns the number of the unused volume: the old volume after a switch, or the restored volume after a failed
 * restore. Undefined while a restore runs that has not switched. Also undefined if another restore now uses the number,
 * because the numbers of deleted volumes and Restores are assigned again.
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
    const usesNumber = incarnationOf(other) === own && (hasSwitched || isOpenRestore(other))
    return usesNumber || (hasSwitched && other.status?.previous?.incarnation === own)
  })
  return own === serving || isAnothers ? undefined : own
}

/**
 * The next number that no claim and no restore of the database has. An existing Restore keeps its number, because its
 * unused volume is identified by that number.
 */
export const freeIncarnation = (ofClaims: readonly number[], restores: readonly Restore[]): number =>
  1 + Math.max(0, ...ofClaims, ...restores.map(restore => incarnationOf(restore) ?? 0))
