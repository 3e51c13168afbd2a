/**
 * The time when anything about a database or a branch that users see last changed, in milliseconds. Conditions have
 * only whole seconds, and do not cover everything: the used storage, an address or a service can change with the same
 * conditions.
 */
import { canonicalJson } from '../../crds/index.ts'
import { preciseTime } from '../../values/time.ts'

/** The status of a database or a branch. */
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
  /** Included in the used storage. */
  previous?: readonly { bytes?: number | undefined }[] | undefined
  source?: { lsn?: string | undefined } | undefined
}

/** The fields of a status that an API shows or derives values from. */
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

/** The status to write, with the time of its last change that users can see. */
export function withUpdatedAt<S extends Status>(before: Status | undefined, status: S, now: number): S {
  const isSame = canonicalJson(seenOf(before ?? {})) === canonicalJson(seenOf(status))
  const updatedAt = isSame ? before?.updatedAt : preciseTime(now)
  const { updatedAt: _, ...rest } = status
  // `rest` is the status without `updatedAt`.
  return { ...rest, ...(updatedAt === undefined ? {} : { updatedAt }) } as S
}
