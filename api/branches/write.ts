/** Writes branches. Each branch is one object that the operator reconciles. */
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
import { readDatabase } from '../databases/find.ts'
import { backupsOf, decideMoment, onlyTarget } from '../databases/moment.ts'
import { badRequest, conflict, notFound, retryAfter } from '../errors.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import { branchServices } from '../services/write.ts'
import { guarded, recordTask, refuseSecondCreation, timeNow, type Writer } from '../writer.ts'
import { decideBranch, decideDeletion, isEnding } from './decide.ts'
import type { CreateBranchInput, TargetInput } from './schema.ts'
import { occupancyOf, withSlot } from './slots.ts'

type Branch = Kinds['Branch']

const operationAnnotations = ({ context }: Writer, taskId: string, name: OperationName) => ({
  [annotations.operation]: renderOperation({ taskId, name, hash: '' }),
  [annotations.updatedAt]: timeNow(context),
})

/** Reserves a slot for the branch and returns its spec. @throws ApiError 400, 404, 409 */
async function takeSlot(writer: Writer, databaseId: string, input: CreateBranchInput, id: string) {
  const { context, account } = writer
  const { cluster, caches } = context
  return guarded({ namespace: account.namespace, id: databaseId, what: 'database' }, async () => {
    const database = await readDatabase({ cluster }, account.namespace, databaseId)
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
      target: await targetOf(writer, database, databaseId, input),
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

/** Returns the archive source of a branch. @throws ApiError 400, 404 */
export async function targetOf(
  { context, account: { namespace } }: Writer,
  database: Kinds['ManagedDatabase'],
  databaseId: string,
  input: TargetInput & Pick<CreateBranchInput, 'source_branch_id'>,
): Promise<Branch['spec']['target']> {
  const field = onlyTarget(input)
  if (field === undefined) return undefined
  if (input.source_branch_id !== undefined)
    throw badRequest(`${field}: cannot be combined with source_branch_id: branches are not archived`)
  if (input.backup_id === undefined) return decideMoment(database, backupsOf(context, namespace, databaseId), input)
  const backup = await readOwned(context.cluster, 'Backup', namespace, input.backup_id)
  if (backup === undefined) throw notFound('backup')
  if (backup.spec.databaseId !== databaseId) throw badRequest('backup_id: the backup belongs to another database')
  if (!database.spec.backup.durable) throw badRequest('backup_id: the durable tier of the database is off')
  if (backup.spec.kind !== 'durable')
    throw badRequest('backup_id: the backup is hot; use a durable backup, or omit backup_id')
  if (backup.metadata.deletionTimestamp !== undefined || backup.status?.phase !== 'completed')
    throw badRequest('backup_id: the backup is not completed')
  return { backupName: backup.metadata.name }
}

/** Returns the branch of this database that the new branch copies. */
async function sourceOf(
  { context, account }: Writer,
  databaseId: string,
  { source_branch_id: sourceId }: CreateBranchInput,
): Promise<Branch | undefined> {
  if (sourceId === undefined) return undefined
  const found = await readOwned(context.cluster, 'Branch', account.namespace, sourceId)
  return found?.spec.databaseId === databaseId ? found : undefined
}

/**
 * Creates the branch with these ids. If an earlier attempt with the same ids has created it, returns that branch.
 * @throws ApiError 400, 404, 409
 */
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
  await refuseSecondCreation(writer, ids)
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
    annotations: operationAnnotations(writer, ids.taskId, 'create-branch'),
    finalizers: [teardownFinalizer],
  }
  try {
    await context.serviceSecrets.write(account, ids.objectId, secrets)
    return await finished(await cluster.create('Branch', { apiVersion, kind: 'Branch', metadata, spec }))
  } catch (error) {
    if (!isClusterError(error, 'AlreadyExists')) throw error
    const winner = await cluster.get('Branch', { namespace, name })
    if (winner !== undefined && idOf(winner) === ids.objectId) return finished(winner)
    throw conflict('the generated name of the branch is taken: retry', retryAfter.conflict)
  }
}

/** A branch to delete: its database, the attempt of the write, and its preconditions. */
type Deletion = {
  databaseId: string
  attempt: Attempt
  requireCurrent: ((current: Branch) => Promise<void>) | undefined
}

/**
 * The result of a deletion. `branch`: as stored, if it still exists. `isOwn`: whether this attempt requested the
 * deletion.
 */
type Deleted = { branch: Branch | undefined; name: string; taskId: string | undefined; isOwn: boolean }

function alreadyEnding(branch: Branch, { taskId: ownTaskId }: Attempt): Deleted {
  const operation = annotatedOperation(branch)
  const taskId = operation?.name === 'delete-branch' ? operation.taskId : undefined
  return { branch, name: branch.metadata.name, taskId, isOwn: taskId === ownTaskId }
}

/**
 * The write that requests the deletion frees the slot. Repeating the request changes nothing. Returns the task, if the
 * deletion has one.
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
      return { branch: undefined, name: attempt.begun.name, taskId, isOwn: true }
    if (current === undefined || current.spec.databaseId !== databaseId) throw notFound('branch')
    if (isEnding(current)) return alreadyEnding(current, attempt)
    await requireCurrent?.(current)
    const { items } = await cluster.list('Branch', { namespace: account.namespace })
    decideDeletion(current, items)
    const { metadata, spec } = current
    const { name } = metadata
    await attempt.begin({ name })
    const added = operationAnnotations(writer, taskId, 'delete-branch')
    const branch = await cluster.replace('Branch', {
      ...current,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...added } },
      spec: { ...spec, deletionRequestedAt: timeNow(context) },
    })
    return { branch, name, taskId, isOwn: true }
  })
  if (deleted.branch !== undefined) caches.Branch.writeThrough(deleted.branch)
  if (deleted.isOwn) {
    const subject = { kind: 'branch' as const, id, name: deleted.name }
    await recordTask(writer, { taskId, name: 'delete-branch', subject, request: {} })
  }
  return deleted.taskId
}
