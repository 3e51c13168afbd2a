/**
 * The record of the volume that holds the data. It is made when Postgres has answered for the first time, and says the
 * same for good; only which claim stands for the volume may change, where the database or its claim was put back.
 */
import type { ManagedDatabaseStatus } from '../../../crds/index.ts'
import { systemIdentifierOf } from '../children/claim.ts'
import type { Observed } from '../observed.ts'

export type VolumeRecord = NonNullable<ManagedDatabaseStatus['volume']>

/**
 * The record that a claim gives by itself, where the database's own is missing or names a claim that is gone: the
 * claim was put back, with or after its database, and says that these data stand on it. Nothing else is done before
 * that is on record.
 */
export function recordFromClaim({ database, children: { claim }, isStrayClaim }: Observed): VolumeRecord | undefined {
  const recorded = database.status?.volume
  const { name = '', uid } = claim?.metadata ?? {}
  const systemIdentifier = claim && systemIdentifierOf(claim)
  if (claim === undefined || uid === undefined || systemIdentifier === undefined) return undefined
  if (recorded === undefined) return { claim: name, uid, systemIdentifier }
  const isPutBack = isStrayClaim && recorded.uid !== uid && recorded.systemIdentifier === systemIdentifier
  return isPutBack ? { ...recorded, uid } : undefined
}
