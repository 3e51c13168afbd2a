/**
 * Detects spec changes that were made without the API, for example by kubectl. The API updates an annotation with each
 * change. If only the digest of the spec changed, another client changed the spec.
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

/** Adds the digest of the spec to the status. Sets updatedAt if the spec was changed without the API. */
export function withSpecDigest(
  database: ManagedDatabase,
  status: ManagedDatabaseStatus,
  now: number,
): ManagedDatabaseStatus {
  const before = database.status?.seenSpec
  const updatedAt = database.metadata.annotations?.[annotations.updatedAt]
  const seenSpec = { digest: digestOf(visibleOf(database.spec)), ...(updatedAt === undefined ? {} : { updatedAt }) }
  const isChangedWithoutApi =
    before !== undefined && before.digest !== seenSpec.digest && before.updatedAt === updatedAt
  return { ...status, seenSpec, ...(isChangedWithoutApi ? { updatedAt: preciseTime(now) } : {}) }
}
