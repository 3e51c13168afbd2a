/**
 * When anything that users see of a database or a branch last changed, to the millisecond. The conditions tell it in whole seconds only, and not
 * of everything: the storage used, an address or a service can change under the same conditions.
 */
import { canonicalJson } from '../../crds/index.ts'
import { preciseTime } from '../../values/time.ts'

/** Of a database, or of a branch. */
type Status = {
  updatedAt?: string | undefined
  phase?: string | undefined
  appliedHash?: string | undefined
  connectableAt?: string | undefined
  endpoint?: object | undefined
  domain?: string | undefined
  services?: readonly object[] | undefined
  size?: object | undefined
  storage?: { capacity: string } | undefined
  storageUsedBytes?: number | undefined
  branchCount?: number | undefined
  /** Counted in the storage that is used. */
  previous?: readonly { bytes?: number | undefined }[] | undefined
  source?: { lsn: string } | undefined
}

/** What of a status an API shows, or what decides about that. */
function seenOf(status: Status) {
  const { phase, appliedHash, connectableAt, endpoint, domain, services, size, storageUsedBytes, branchCount } = status
  const previousBytes = status.previous?.map(({ bytes }) => bytes ?? 0)
  const [capacity, lsn] = [status.storage?.capacity, status.source?.lsn]
  return {
    phase,
    appliedHash,
    connectableAt,
    endpoint,
    domain,
    services,
    size,
    storageUsedBytes,
    branchCount,
    previousBytes,
    capacity,
    lsn,
  }
}

/** The status that is to be written, with when users last saw a change of it. */
export function withUpdatedAt<S extends Status>(before: Status | undefined, status: S, now: number): S {
  const isSame = canonicalJson(seenOf(before ?? {})) === canonicalJson(seenOf(status))
  const updatedAt = isSame ? before?.updatedAt : preciseTime(now)
  const { updatedAt: _, ...rest } = status
  // The rest of it with the one member that was taken out.
  return { ...rest, ...(updatedAt === undefined ? {} : { updatedAt }) } as S
}
