/** All that a pass knows of one branch: its Postgres, what it is copied from, and what is a branch's alone. */
import { type Backup, type Branch, branchPhase, isFailedCreation, type ManagedDatabase } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { Instance } from '../objects/instance.ts'
import type { Observed as ObservedOwner } from '../owner/observed.ts'

export type BranchStatus = NonNullable<Branch['status']>

/** What a branch is made from: a database, or another branch. */
export type Source = ManagedDatabase | Branch

export type Observed = ObservedOwner & {
  branch: Branch
  /** Undefined where there is none of that name and id. Not looked for once the data are cut. */
  source: Source | undefined
  /** The database that the data come from, at any depth. */
  root: ManagedDatabase | undefined
  /** What the volume is made from, while it is there. One that has ended is whole only where it is still to be read. */
  backup: Backup | undefined
  /** The most branches that the database may have, where this one is beyond that. */
  exceeded: number | undefined
}

/** Its deletion is asked for, one way or the other. */
export const isDeletionRequested = (branch: Branch): boolean => branchPhase(branch) === 'deleting'

/** A branch as the Postgres that it asks for. What goes, or came to nothing, is on its way out. `now`: ms since the epoch. */
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

/** A time that somebody wrote may be one to come: nothing is waited for so long. */
function deletionSince(branch: Branch, now: number): string | undefined {
  const { metadata, spec, status } = branch
  if (metadata.deletionTimestamp !== undefined) return metadata.deletionTimestamp
  const asked = spec.deletionRequestedAt
  if (asked !== undefined) return Date.parse(asked) <= now ? asked : new Date(now).toISOString()
  return isFailedCreation(branch) ? conditionOf(status, 'Ready')?.lastTransitionTime : undefined
}
