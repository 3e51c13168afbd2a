/**
 * Permanent reasons why a branch cannot be created. The prebranch Backup, not this module, reports problems of the
 * source's Postgres. Pure.
 */
import {
  type Branch,
  isCreatedBefore,
  isTeardownBegun,
  type ManagedDatabase,
  snapshotRefusal,
} from '../../../crds/index.ts'
import type { Observed, Source } from '../observed.ts'

export type Refusal = { reason: string; message: string }

export const refused = (reason: string, message: string): Refusal => ({ reason, message })

const depthOf = (source: Source): number => (source.kind === 'Branch' ? source.spec.depth : 0)

function missing({ spec }: Branch): Refusal {
  const { sourceBranch, databaseName, databaseId } = spec
  return sourceBranch === undefined
    ? refused('SourceMissing', `there is no database ${databaseName} with the id ${databaseId}`)
    : refused('SourceMissing', `there is no branch ${sourceBranch.name} with the id ${sourceBranch.id}`)
}

/**
 * Refuses a field whose value does not fit the source. The API copies the values. A manifest can have other values.
 */
function mismatch({ spec }: Branch, source: Source): Refusal | undefined {
  const { databaseId, depth, region, pgVersion } = spec
  const wrong = (field: string, is: string | number, of: string | number) =>
    refused(
      'SourceMismatch',
      `spec.${field}: is ${JSON.stringify(is)}, must be ${JSON.stringify(of)}, as in the source; delete this branch, and create it again with ${JSON.stringify(of)}`,
    )
  if (source.kind === 'Branch' && source.spec.databaseId !== databaseId)
    return wrong('databaseId', databaseId, source.spec.databaseId)
  if (depth !== depthOf(source) + 1)
    return refused(
      'SourceMismatch',
      `spec.depth: is ${depth}, must be ${depthOf(source) + 1} (the source's depth plus 1); delete this branch, and create it again with ${depthOf(source) + 1}`,
    )
  if (region !== source.spec.region) return wrong('region', region, source.spec.region)
  if (pgVersion !== source.spec.pgVersion) return wrong('pgVersion', pgVersion, source.spec.pgVersion)
  return undefined
}

/**
 * Whether the database's deletion prevents the branch: the operator has begun to delete the database, or a user
 * requested the deletion before the branch was created.
 */
function isTooLate(branch: Branch, database: ManagedDatabase | undefined): boolean {
  const requestedAt = database?.metadata.deletionTimestamp
  if (database === undefined || requestedAt === undefined) return false
  return isTeardownBegun(database) || !isCreatedBefore(branch, requestedAt)
}

export function refusalOf(
  { branch, source, root, region, exceeded }: Observed,
  { highestDepth }: { highestDepth: number },
): Refusal | undefined {
  const { depth } = branch.spec
  if (depth > highestDepth)
    return refused(
      'TooDeep',
      `spec.depth: ${depth} is above this installation's maximum of ${highestDepth}; create the branch from a source with a smaller depth`,
    )
  if (source === undefined) return missing(branch)
  const database = source.kind === 'ManagedDatabase' ? source : root
  if (isTooLate(branch, database)) return refused('SourceDeleting', 'the database is being deleted')
  const isCopied = branch.spec.target === undefined
  const refusal = mismatch(branch, source) ?? (isCopied ? snapshotRefusal(branch.spec.region, region) : undefined)
  if (refusal !== undefined || exceeded === undefined) return refusal
  return refused(
    'LimitReached',
    `the database has reached its limit of ${exceeded} branches; delete another branch, then delete this branch and create it again`,
  )
}
