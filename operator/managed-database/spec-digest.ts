/**
 * Changes of a spec that users see and that did not come through the API, as by kubectl: the API notes when it writes, others do not. They
 * are told by a digest of what users see that has changed while the API's note has not.
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

/** The status that is to be written, with when users last saw a change of what it is about. */
export function withSpecDigest(
  database: ManagedDatabase,
  status: ManagedDatabaseStatus,
  now: number,
): ManagedDatabaseStatus {
  const before = database.status?.seenSpec
  const updatedAt = database.metadata.annotations?.[annotations.updatedAt]
  const seenSpec = { digest: digestOf(visibleOf(database.spec)), ...(updatedAt === undefined ? {} : { updatedAt }) }
  const isOfOthers = before !== undefined && before.digest !== seenSpec.digest && before.updatedAt === updatedAt
  return { ...status, seenSpec, ...(isOfOthers ? { updatedAt: preciseTime(now) } : {}) }
}
