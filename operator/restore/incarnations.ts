/** Which of a database's volumes is whose, where it is restored more than once. Pure. */
import { isOpenRestore, type ManagedDatabase, type Restore } from '../../crds/index.ts'

const incarnationOf = ({ status }: Restore): number | undefined => status?.incarnation

/**
 * The number of what a restore leaves behind: of the volume that served before, or of its own that never did. None while it goes on,
 * and of its own none that became another's since: its number may have been given again, where its claim was gone.
 */
export function leftBehind(
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

/** The next number that no claim of the database has, and none of its restores has had: what one leaves behind goes by its number. */
export const freeIncarnation = (ofClaims: readonly number[], restores: readonly Restore[]): number =>
  1 + Math.max(0, ...ofClaims, ...restores.map(restore => incarnationOf(restore) ?? 0))
