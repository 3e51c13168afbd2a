/** Whether a branch can be made or deleted now, and what it is to be: pure functions, which refuse by throwing ApiError. */
import type { Kinds } from '../../cluster/index.ts'
import { type Branch, branchPhase, type ServiceConfig, snapshotRefusal, visiblePhase } from '../../crds/index.ts'
import { comesToServe, serves } from '../backups/decide.ts'
import { idOf } from '../caches.ts'
import { storedAllowlist } from '../databases/allowlist.ts'
import { sizeInForce } from '../databases/resize.ts'
import { badRequest, conflict, retryAfter } from '../errors.ts'
import type { CreateBranchInput } from './schema.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

type Asked = {
  input: CreateBranchInput
  database: ManagedDatabase
  /** The branch that is to be branched, where one was found. */
  sourceBranch: Branch | undefined
  region: Kinds['Region'] | undefined
  /** How many branches the database has, those that are being made included, and how many it may have. */
  count: number
  limit: number | undefined
  highestDepth: number
  now: number
  services: readonly ServiceConfig[]
}

/** The spec of a new branch. @throws ApiError 400 where it cannot be had, 409 where it cannot now */
export function decideBranch(asked: Asked): Branch['spec'] {
  const { input, database, sourceBranch, region, count, limit, highestDepth, now } = asked
  if (input.source_branch_id !== undefined && sourceBranch === undefined)
    throw badRequest('source_branch_id: the database has no such branch')
  const depth = (sourceBranch?.spec.depth ?? 0) + 1
  if (depth > highestDepth)
    throw badRequest(
      `source_branch_id: the branch would be at depth ${depth}, and this installation allows ${highestDepth}`,
    )
  if (input.expires_at !== undefined && Date.parse(input.expires_at) <= now)
    throw badRequest('expires_at: must be in the future')
  const refusal = snapshotRefusal(database.spec.region, region)
  if (refusal !== undefined) throw conflict(`no branch can be made: ${refusal.message}`)
  if (sourceBranch === undefined) requireServing(database)
  else requireAvailable(database, sourceBranch)
  if (limit !== undefined && count >= limit)
    throw conflict(`the database has ${count} branches, and may have ${limit}: delete one first`)
  return specOf(asked, depth)
}

function requireServing(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase === 'suspended' || phase === 'suspending')
    throw conflict(`the database is ${phase}: resume it, then make a branch`)
  if (!serves(database))
    throw conflict(
      `the database is ${phase}: a branch is made of one that serves; its tasks say what holds it up`,
      comesToServe(phase) ? retryAfter.busy : undefined,
    )
}

function requireAvailable(database: ManagedDatabase, source: Branch): void {
  if (database.metadata.deletionTimestamp !== undefined) throw conflict('the database is being deleted')
  const phase = branchPhase(source)
  if (phase !== 'available')
    throw conflict(
      `the branch ${source.metadata.name} is ${phase}: a branch is made of one that is available`,
      phase === 'creating' ? retryAfter.busy : undefined,
    )
}

function specOf({ input, database, sourceBranch, services }: Asked, depth: number): Branch['spec'] {
  const source = sourceBranch ?? database
  const { region, pgVersion, storage, ipAllowlist, options } = source.spec
  return {
    databaseName: database.metadata.name,
    databaseId: idOf(database) ?? '',
    ...(sourceBranch === undefined
      ? {}
      : { sourceBranch: { name: sourceBranch.metadata.name, id: idOf(sourceBranch) ?? '' } }),
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

/** Whether it is being deleted, or is deleted. */
export const isEnding = (branch: Branch): boolean => ['deleting', 'deleted'].includes(branchPhase(branch))

/**
 * Of one that is not ending. `branches`: the live ones of its database.
 * @throws ApiError 409 while it is being made, or another one out of it
 */
export function decideDeletion(branch: Branch, branches: readonly Branch[]): void {
  if (branchPhase(branch) === 'creating')
    throw conflict('the branch is being created: wait until it is available, then try again', retryAfter.busy)
  const isCopied = ({ spec, status }: Branch) =>
    spec.sourceBranch?.id === idOf(branch) && status?.source === undefined && status?.volume === undefined
  const child = branches.find(isCopied)
  if (child !== undefined)
    throw conflict(`the branch ${child.metadata.name} is being made from it: try again in a moment`, retryAfter.busy)
}
