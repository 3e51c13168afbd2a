/** Carries out writes of branches: each is one object, which the operator does the rest of. */
import { isClusterError, type Kinds } from '../../cluster/index.ts'
import {
  annotatedOperation,
  annotations,
  apiVersion,
  branchName,
  labels,
  managedByEspalier,
  type OperationName,
  renderOperation,
  teardownFinalizer,
  tenantHash,
} from '../../crds/index.ts'
import { idOf, readOwned } from '../caches.ts'
import { conflict, notFound, retryAfter } from '../errors.ts'
import type { Attempt } from '../idempotency/claims.ts'
import { branchServices } from '../services/write.ts'
import { guarded, recordTask, refuseSecondMaking, timeNow, type Writer } from '../writer.ts'
import { decideBranch, decideDeletion, isEnding } from './decide.ts'
import type { CreateBranchInput } from './schema.ts'
import { occupancyOf, withSlot } from './slots.ts'

type Branch = Kinds['Branch']

const marksOf = ({ context }: Writer, taskId: string, name: OperationName) => ({
  [annotations.operation]: renderOperation({ taskId, name, hash: '' }),
  [annotations.updatedAt]: timeNow(context),
})

/** Takes a slot for the branch and says what it is to be. @throws ApiError 400, 404, 409 */
async function takeSlot(writer: Writer, databaseId: string, input: CreateBranchInput, id: string) {
  const { context, account } = writer
  const { cluster, caches } = context
  return guarded({ namespace: account.namespace, id: databaseId, what: 'database' }, async () => {
    const database = await readOwned(cluster, 'ManagedDatabase', account.namespace, databaseId)
    if (database === undefined) throw notFound('database')
    const occupancy = await occupancyOf(writer, database)
    const region =
      caches.Region.get({ name: database.spec.region }) ?? (await cluster.get('Region', { name: database.spec.region }))
    const { branches, slots } = occupancy
    const sourceBranch = await sourceOf(writer, databaseId, input)
    const { services, secrets } = await branchServices(writer, sourceBranch ?? database, id)
    const spec = decideBranch({
      input,
      database,
      sourceBranch,
      services,
      region,
      count: branches.length + slots.filter(slot => slot.id !== id).length,
      limit: account.tenant?.spec.limits.branchesPerDatabase,
      highestDepth: context.highestDepth,
      now: context.now(),
    })
    await cluster.replace('ManagedDatabase', withSlot(database, occupancy, id, context.now()))
    return { spec, secrets }
  })
}

/** The branch of this database that is to be branched. */
async function sourceOf(
  { context, account }: Writer,
  databaseId: string,
  { source_branch_id: sourceId }: CreateBranchInput,
): Promise<Branch | undefined> {
  if (sourceId === undefined) return undefined
  const found = await readOwned(context.cluster, 'Branch', account.namespace, sourceId)
  return found?.spec.databaseId === databaseId ? found : undefined
}

/** Makes the branch of these ids, or finds it made by an earlier try with the same ids. @throws ApiError 400, 404, 409 */
export async function createBranch(
  writer: Writer,
  databaseId: string,
  input: CreateBranchInput,
  ids: Attempt,
): Promise<Branch> {
  const { context, account } = writer
  const { cluster, caches } = context
  const { namespace, tenantId } = account
  const finished = async (branch: Branch): Promise<Branch> => {
    caches.Branch.writeThrough(branch)
    const subject = { kind: 'branch' as const, id: ids.objectId, name: branch.metadata.name }
    const { ipAllowlist } = branch.spec
    const request = { ...input, ...(input.ip_allowlist === undefined ? {} : { ip_allowlist: ipAllowlist }) }
    await recordTask(writer, { taskId: ids.taskId, name: 'create-branch', subject, request })
    return branch
  }
  const earlier = await readOwned(cluster, 'Branch', namespace, ids.objectId)
  if (earlier !== undefined) return finished(earlier)
  await refuseSecondMaking(writer, ids)
  const { spec, secrets } = await takeSlot(writer, databaseId, input, ids.objectId)
  const name = branchName(spec.databaseName, ids.objectId)
  const metadata = {
    name,
    namespace,
    labels: {
      [labels.id]: ids.objectId,
      [labels.tenant]: tenantHash(tenantId),
      [labels.managedBy]: managedByEspalier,
    },
    annotations: marksOf(writer, ids.taskId, 'create-branch'),
    finalizers: [teardownFinalizer],
  }
  try {
    await context.serviceSecrets.write(account, ids.objectId, secrets)
    return await finished(await cluster.create('Branch', { apiVersion, kind: 'Branch', metadata, spec }))
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
    const winner = await cluster.get('Branch', { namespace, name })
    if (winner !== undefined && idOf(winner) === ids.objectId) return finished(winner)
    throw conflict('the name that the branch was to be given is taken: try again', retryAfter.conflict)
  }
}

/** Of a branch to delete: which database's it is, which try of the write it is, and on what it depends. */
type Deletion = {
  databaseId: string
  attempt: Attempt
  requireCurrent: ((current: Branch) => Promise<void>) | undefined
}

/** What a deletion found or left. `branch`: as stored, where it is still there. `isOurs`: no other request asked for it. */
type Deleted = { branch: Branch | undefined; name: string; taskId: string | undefined; isOurs: boolean }

function alreadyEnding(branch: Branch, { taskId: ours }: Attempt): Deleted {
  const operation = annotatedOperation(branch)
  const taskId = operation?.name === 'delete-branch' ? operation.taskId : undefined
  return { branch, name: branch.metadata.name, taskId, isOurs: taskId === ours }
}

/**
 * The slot is free with the write that asks for it. Asking again changes nothing. Gives the task, if one follows it.
 * @throws ApiError 404, 409, 412
 */
export async function deleteBranch(writer: Writer, id: string, deletion: Deletion): Promise<string | undefined> {
  const { databaseId, attempt, requireCurrent } = deletion
  const { context, account } = writer
  const { cluster, caches } = context
  const { taskId } = attempt
  const object = { namespace: account.namespace, id, what: 'branch' as const }
  const deleted = await guarded(object, async (): Promise<Deleted> => {
    const current = await readOwned(cluster, 'Branch', account.namespace, id)
    if (current === undefined && attempt.begun !== undefined)
      return { branch: undefined, name: attempt.begun.name, taskId, isOurs: true }
    if (current === undefined || current.spec.databaseId !== databaseId) throw notFound('branch')
    if (isEnding(current)) return alreadyEnding(current, attempt)
    await requireCurrent?.(current)
    const { items } = await cluster.list('Branch', { namespace: account.namespace })
    decideDeletion(current, items)
    const { metadata, spec } = current
    const { name } = metadata
    await attempt.begin({ name })
    const marks = marksOf(writer, taskId, 'delete-branch')
    const branch = await cluster.replace('Branch', {
      ...current,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...marks } },
      spec: { ...spec, deletionRequestedAt: timeNow(context) },
    })
    return { branch, name, taskId, isOurs: true }
  })
  if (deleted.branch !== undefined) caches.Branch.writeThrough(deleted.branch)
  if (deleted.isOurs) {
    const subject = { kind: 'branch' as const, id, name: deleted.name }
    await recordTask(writer, { taskId, name: 'delete-branch', subject, request: {} })
  }
  return deleted.taskId
}
