/**
 * Detects spec changes by kubectl and other clients besides the API, which writes an annotation with each change: then
 * the digest of what users see has changed, and the annotation has not.
 */
import { annotations, type ManagedDatabase, type ManagedDatabaseStatus } from '../../crds/index.ts'
import { preciseTime } from '../../values/time.ts'
import { digestOf } from '../objects/up-to-date.ts'

const visibleOf = ({
  displayName,
  options,
  ipAllowlist,
  deletionProtection,
  storage,
  services,
  credentials,
}: ManagedDatabase['spec']) => ({
  displayName,
  options,
  ipAllowlist,
  deletionProtection,
  storage,
  services,
  credentials,
})

/** The status with the digest of the spec, and with updatedAt if the spec was changed without the API. */
export function withSpecDigest(
  database: ManagedDatabase,
  status: ManagedDatabaseStatus,
  now: number,
): ManagedDatabaseStatus {
  const before = database.status?.seenSpec
  const updatedAt = database.metadata.annotations?.[annotations.updatedAt]
  const seenSpec = { digest: digestOf(visibleOf(database.spec)), ...(updatedAt === undefined ? {} : { updatedAt }) }
  const isChangedByOthers = before !== undefined && before.digest !== seenSpec.digest && before.updatedAt === updatedAt
  return { ...status, seenSpec, ...(isChangedByOthers ? { updatedAt: preciseTime(now) } : {}) }
}
