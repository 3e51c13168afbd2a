/** What a pass observes of one branch besides what it observes of every owner. */
import { type Backup, type Branch, branchPhase, isFailedCreation, type ManagedDatabase } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { Instance } from '../objects/instance.ts'
import type { Observed as ObservedOwner } from '../owner/observed.ts'

export type BranchStatus = NonNullable<Branch['status']>

/** What a branch is copied from: a database, or another branch. */
export type Source = ManagedDatabase | Branch

export type Observed = ObservedOwner & {
  branch: Branch
  /** Undefined if there is none with that name and id. Not read once the source is copied. */
  source: Source | undefined
  /** The database that the data come from, at any depth. */
  root: ManagedDatabase | undefined
  /** The backup that the volume is created from, if it exists. Once it has ended, it is whole only while more of it is needed. */
  backup: Backup | undefined
  /** The limit of branches of the database, if this branch exceeds it. */
  exceeded: number | undefined
}

/** Whether its deletion is requested, by its spec or by a deletion of the object. */
export const isDeletionRequested = (branch: Branch): boolean => branchPhase(branch) === 'deleting'

/** A branch as the Postgres that it asks for. A failed one is treated as being deleted. `now`: ms since the epoch. */
export function instanceOf(branch: Branch, now: number): Instance {
  const { kind, metadata, spec, status } = branch
  const { region, size, pgVersion, ipAllowlist, storage } = spec
  const { source } = status ?? {}
  const since = deletionSince(branch, now)
  return {
    kind,
    metadata: since === undefined ? metadata : { ...metadata, deletionTimestamp: since },
    spec: { region, size, pgVersion, ipAllowlist, storage, suspended: false },
    ...(status === undefined ? {} : { status }),
    ...(source === undefined
      ? {}
      : {
          dataSource: {
            kind: 'snapshot',
            snapshot: source.snapshotName,
            id: source.id,
            systemIdentifier: source.systemIdentifier,
            bytes: source.sizeBytes ?? 0,
          },
        }),
  }
}

/** A time that a user wrote can be in the future: it counts as now. */
function deletionSince(branch: Branch, now: number): string | undefined {
  const { metadata, spec, status } = branch
  if (metadata.deletionTimestamp !== undefined) return metadata.deletionTimestamp
  const asked = spec.deletionRequestedAt
  if (asked !== undefined) return Date.parse(asked) <= now ? asked : new Date(now).toISOString()
  return isFailedCreation(branch) ? conditionOf(status, 'Ready')?.lastTransitionTime : undefined
}
