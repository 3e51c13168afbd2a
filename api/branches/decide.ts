/**
 * Decides whether a branch can be created, moved or deleted now, and what spec it gets. Refuses by throwing ApiError.
 */
import type { Kinds } from '../../cluster/index.ts'
import { type Branch, branchPhase, type ServiceConfig, snapshotRefusal, visiblePhase } from '../../crds/index.ts'
import { comesToServe, serves } from '../backups/decide.ts'
import { idOf } from '../caches.ts'
import { storedAllowlist } from '../databases/allowlist.ts'
import { sizeInForce } from '../databases/resize.ts'
import { badRequest, conflict, retryAfter } from '../errors.ts'
import type { CreateBranchInput } from './schema.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

type BranchRequest = {
  input: CreateBranchInput
  database: ManagedDatabase
  /** The branch to copy, if one was found. */
  sourceBranch: Branch | undefined
  /** The target time or durable backup of the data; undefined: the current data. */
  target: Branch['spec']['target']
  region: Kinds['Region'] | undefined
  /** How many branches the database has, including branches that are being created, and how many it may have. */
  count: number
  limit: number | undefined
  highestDepth: number
  now: number
  services: readonly ServiceConfig[]
}

/** Returns the spec of a new branch. @throws ApiError 400 if it is not possible; 409 if it is not possible now */
export function decideBranch(requested: BranchRequest): Branch['spec'] {
  const { input, database, sourceBranch, target, region, count, limit, highestDepth, now } = requested
  if (input.source_branch_id !== undefined && sourceBranch === undefined)
    throw badRequest('source_branch_id: the database has no such branch')
  const depth = (sourceBranch?.spec.depth ?? 0) + 1
  if (depth > highestDepth)
    throw badRequest(
      `source_branch_id: the branch would be at depth ${depth}; the maximum of this installation is ${highestDepth}`,
    )
  if (input.expires_at !== undefined && Date.parse(input.expires_at) <= now)
    throw badRequest('expires_at: must be in the future')
  const refusal = snapshotRefusal(database.spec.region, region)
  if (refusal !== undefined && target === undefined) throw conflict(`the branch cannot be created: ${refusal.message}`)
  if (target !== undefined) requireNotEnding(database)
  else if (sourceBranch === undefined) requireServing(database)
  else requireAvailable(database, sourceBranch)
  if (limit !== undefined && count >= limit)
    throw conflict(`the database has ${count} branches; the maximum is ${limit}: delete one first`)
  return specOf(requested, depth)
}

function requireServing(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase === 'suspended' || phase === 'suspending')
    throw conflict(`the database is ${phase}: resume it, then create a branch`)
  if (!serves(database))
    throw conflict(
      `the database is ${phase}: a branch needs a running database; its tasks show the reason`,
      comesToServe(phase) ? retryAfter.busy : undefined,
    )
}

/** A branch from the archive needs no running Postgres, so only the deletion of the database prevents it. */
function requireNotEnding({ metadata }: ManagedDatabase): void {
  if (metadata.deletionTimestamp !== undefined) throw conflict('the database is being deleted')
}

function requireAvailable(database: ManagedDatabase, source: Branch): void {
  requireNotEnding(database)
  const phase = branchPhase(source)
  if (phase !== 'available')
    throw conflict(
      `the branch ${source.metadata.name} is ${phase}: only an available branch can be copied`,
      phase === 'creating' ? retryAfter.busy : undefined,
    )
}

function specOf({ input, database, sourceBranch, target, services }: BranchRequest, depth: number): Branch['spec'] {
  const source = sourceBranch ?? database
  const { region, pgVersion, storage, ipAllowlist, options } = source.spec
  return {
    databaseName: database.metadata.name,
    databaseId: idOf(database) ?? '',
    ...(sourceBranch === undefined
      ? {}
      : { sourceBranch: { name: sourceBranch.metadata.name, id: idOf(sourceBranch) ?? '' } }),
    ...(target === undefined ? {} : { target }),
    depth,
    region,
    size: sourceBranch?.spec.size ?? sizeInForce(database),
    pgVersion,
    ...(storage === undefined ? {} : { storage }),
    ...(input.display_name === undefined ? {} : { displayName: input.display_name }),
    ipAllowlist: input.ip_allowlist === undefined ? ipAllowlist : storedAllowlist(input.ip_allowlist),
    services: [...services],
    options,
    ...(input.expires_at === undefined ? {} : { expiresAt: input.expires_at }),
  }
}

/** Whether the branch is being deleted or has been deleted. */
export const isEnding = (branch: Branch): boolean => ['deleting', 'deleted'].includes(branchPhase(branch))

/**
 * @throws ApiError 400 for a branch without a target; 409 unless the branch is available, or failed after it was
 *   available
 */
export function decideMove(branch: Branch, branches: readonly Branch[]): void {
  if (branch.spec.target === undefined)
    throw badRequest(
      'the branch is a copy of the data at its creation: only a branch that was created with a target can be moved',
    )
  const phase = branchPhase(branch)
  const isMade = branch.status?.connectableAt !== undefined
  if (phase === 'creating' || !isMade || isEnding(branch))
    throw conflict(
      `the branch is ${phase === 'creating' && isMade ? 'moving' : phase}: only one that has been available can be moved`,
      phase === 'creating' ? retryAfter.busy : undefined,
    )
  refuseWhileCopied(branch, branches)
}

/**
 * The branch must not be deleting already. `branches`: the live branches of its database.
 * @throws ApiError 409 while the branch is being created, or while another branch is being created from it
 */
export function decideDeletion(branch: Branch, branches: readonly Branch[]): void {
  if (branchPhase(branch) === 'creating' && branch.status?.connectableAt === undefined)
    throw conflict('the branch is being created: wait until it is available, then try again', retryAfter.busy)
  refuseWhileCopied(branch, branches)
}

function refuseWhileCopied(branch: Branch, branches: readonly Branch[]): void {
  const isCopied = ({ spec, status }: Branch) =>
    spec.sourceBranch?.id === idOf(branch) && status?.source === undefined && status?.volume === undefined
  const child = branches.find(isCopied)
  if (child !== undefined)
    throw conflict(`the branch ${child.metadata.name} is being created from it: retry in a moment`, retryAfter.busy)
}
