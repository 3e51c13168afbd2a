import { isClusterError, type Kinds } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  defaultPgVersion,
  desiredHash,
  desiredStateOf,
  labels,
  managedByEspalier,
  type OperationName,
  type PgVersion,
  type PinnedSize,
  renderOperation,
  rotationAnnotations,
  tenantHash,
} from '../../crds/index.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import { idOf } from '../caches.ts'
import { sizeForNew } from '../catalogue/versions.ts'
import type { ApiContext } from '../context.ts'
import { badRequest, limitReached, unavailable } from '../errors.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import { earlierAttempt, keyedWriteAnnotation } from '../idempotency/keyed-writes.ts'
import type { DecidedServices } from '../services/decide.ts'
import { newServices, updatedServices } from '../services/write.ts'
import { requireBackupsInPlan } from '../tenants.ts'
import { guarded, recordTask, refuseSecondCreation, timeNow, type Writer } from '../writer.ts'
import {
  decideRestart,
  decideRotation,
  decideSuspension,
  decideUpdate,
  specOfNew,
  type Update,
  updateUnderway,
} from './decide.ts'
import { readDatabase } from './find.ts'
import { importOfNew } from './import.ts'
import { decideResize } from './resize.ts'
import type { CreateDatabaseInput, ResizeDatabaseInput, UpdateDatabaseInput } from './schema.ts'
import { sourceOfNew } from './source.ts'
import { refuseVainGrowth } from './storage.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** The result of a write: the object as stored, and its task, if the write has one. */
export type Written = { database: ManagedDatabase; taskId: string | undefined }

/** A valid object name. The API does not look up other names in the cluster. */
const regionName = /^[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$/

/** Returns the size of a new database. @throws ApiError 400 if the region or size is unavailable */
export async function requireOffer({ cluster, caches }: ApiContext, input: CreateDatabaseInput): Promise<PinnedSize> {
  const name = input.region
  const found =
    caches.Region.get({ name }) ?? (regionName.test(name) ? await cluster.get('Region', { name }) : undefined)
  if (found === undefined) {
    const offered = caches.Region.list().map(region => region.metadata.name)
    throw badRequest(`region: unknown region; available: ${offered.sort().join(', ') || 'none'}`)
  }
  const sizes = await knownSizes({ cluster, caches }, input.size)
  const pinned = sizeForNew(sizes, input.size)
  refuseVainGrowth(input.storage, pinned, sizes)
  return pinned
}

/** Returns the recorded sizes. Reads the cluster if the cache has no size with this name. */
async function knownSizes({ cluster, caches }: Pick<ApiContext, 'cluster' | 'caches'>, name: string) {
  const cached = caches.Size.list()
  return cached.some(({ spec }) => spec.name === name) ? cached : (await cluster.list('Size')).items
}

/** @throws ApiError 400 for a version without an image in this installation */
function versionForNew(
  { pgVersions: [newest = defaultPgVersion, ...others] }: ApiContext,
  wanted: PgVersion | undefined,
): PgVersion {
  const version = wanted ?? newest
  if (version === newest || others.includes(version)) return version
  throw badRequest(
    `pg_version: Postgres ${version} is not available here; available: ${[newest, ...others].join(', ')}`,
  )
}

/** For each tenant: the number of running creates of this process whose database is not in the cache yet. */
const creating = new WeakMap<ApiContext, Map<string, number>>()

/**
 * Enforces a tenant's limit of databases before it writes anything. The limit is exact within one process. If several
 * replicas create concurrently, the quota that the operator maintains decides, with the same message. @throws ApiError
 * 403
 */
async function withinLimit<T>({ context, account }: Writer, limit: number, create: () => Promise<T>): Promise<T> {
  const counts = creating.get(context) ?? new Map<string, number>()
  creating.set(context, counts)
  const underway = counts.get(account.namespace) ?? 0
  const present = context.caches.ManagedDatabase.list({ namespace: account.namespace }).length
  if (present + underway >= limit) throw limitReached(limit)
  counts.set(account.namespace, underway + 1)
  try {
    return await create()
  } finally {
    const remaining = (counts.get(account.namespace) ?? 1) - 1
    if (remaining > 0) counts.set(account.namespace, remaining)
    else counts.delete(account.namespace)
  }
}

const nameTaken = (existing: ManagedDatabase | undefined) =>
  badRequest(
    existing?.metadata.deletionTimestamp === undefined
      ? 'name: another database of the account has this name'
      : 'name: a database with this name is still being deleted',
  )

/** The writer of a create. The tenant already exists. */
type Creator = Writer & { account: { tenant: Kinds['Tenant'] } }

/**
 * Creates the database with these ids. If an earlier attempt with the same ids has created it, returns that database.
 */
export async function createDatabase(writer: Creator, input: CreateDatabaseInput, ids: Attempt): Promise<Written> {
  const { context, account } = writer
  const { cluster, caches } = context
  if (input.backup?.durable) requireBackupsInPlan(account)
  const imported = importOfNew(input, ids.objectId)
  const size = await requireOffer(context, input)
  const shape = (await knownSizes(context, size.name)).find(
    ({ spec: of }) => of.name === size.name && of.version === size.version,
  )?.spec.shape
  const source = await sourceOfNew(writer, input, shape?.storageSize)
  const pgVersion = versionForNew(context, input.pg_version ?? source?.pgVersion)
  const { services, secrets } = await newServices(writer, { id: ids.objectId, pgVersion }, input.services ?? [])
  const importSecret = imported?.secretName
  const spec = specOfNew(input, { size, pgVersion, backupName: source?.backupName, importSecret, services })
  const key = { namespace: account.namespace, name: input.name }
  const finished = async (database: ManagedDatabase): Promise<Written> => {
    caches.ManagedDatabase.writeThrough(database)
    const subject = { kind: 'database' as const, id: ids.objectId, name: input.name }
    await recordTask(writer, {
      taskId: ids.taskId,
      name: 'create-managed',
      subject,
      request: recordedRequestOf(input, spec),
    })
    return { database, taskId: ids.taskId }
  }
  const isOwn = (existing: ManagedDatabase | undefined) => existing !== undefined && idOf(existing) === ids.objectId

  const existing = await cluster.get('ManagedDatabase', key)
  if (existing !== undefined && isOwn(existing)) return finished(existing)
  await refuseSecondCreation(writer, ids)
  if (existing !== undefined) throw nameTaken(existing)
  return withinLimit(writer, account.tenant.spec.limits.databases, async () => {
    try {
      await context.serviceSecrets.write(account, ids.objectId, secrets)
      if (imported !== undefined) await context.serviceSecrets.writeSource(account, ids.objectId, imported)
      return await finished(await cluster.create('ManagedDatabase', draftOf(writer, input.name, spec, ids)))
    } catch (error) {
      if (isClusterError(error, 'NotFound')) throw unavailable('the account is still being set up: retry', error, 5)
      if (!isClusterError(error, 'AlreadyExists')) throw error
      const winner = await cluster.get('ManagedDatabase', key)
      if (winner !== undefined && isOwn(winner)) return finished(winner)
      throw nameTaken(winner)
    }
  })
}

/** Enforces the tenant's limit of databases. @throws ApiError 403, 503; ClusterError `AlreadyExists` */
export const createNew = (
  writer: Creator,
  name: string,
  spec: ManagedDatabase['spec'],
  ids: Pick<Attempt, 'taskId' | 'objectId'>,
): Promise<ManagedDatabase> =>
  withinLimit(writer, writer.account.tenant.spec.limits.databases, () =>
    writer.context.cluster.create('ManagedDatabase', draftOf(writer, name, spec, ids)),
  )

function draftOf(
  { context, account }: Writer,
  name: string,
  spec: ManagedDatabase['spec'],
  ids: Pick<Attempt, 'taskId' | 'objectId'>,
) {
  const operation = renderOperation({ taskId: ids.taskId, name: 'create-managed', hash: desiredHash(spec) })
  return {
    apiVersion,
    kind: 'ManagedDatabase' as const,
    metadata: {
      name,
      namespace: account.namespace,
      labels: {
        [labels.id]: ids.objectId,
        [labels.tenant]: tenantHash(account.tenantId),
        [labels.managedBy]: managedByEspalier,
      },
      annotations: { [annotations.operation]: operation, [annotations.updatedAt]: timeNow(context) },
    },
    spec,
  }
}

/** The content of a request; empty if the request's path is sufficient. */
type RequestInput = CreateDatabaseInput | UpdateDatabaseInput | ResizeDatabaseInput | Record<string, never>

/** The request in the form in which it is stored, without ignored input fields. */
const recordedRequestOf = (
  input: RequestInput,
  { ipAllowlist }: Pick<ManagedDatabase['spec'], 'ipAllowlist'>,
): Record<string, unknown> => ({
  ...input,
  ...(!('ip_allowlist' in input) || input.ip_allowlist === undefined ? {} : { ip_allowlist: ipAllowlist }),
})

/** Decides a change of a spec on the current object. Returns undefined if nothing would change. */
type Decision = (current: ManagedDatabase, services: DecidedServices | undefined) => Update | undefined
/** Refuses the write if the object does not meet the precondition. @throws ApiError 412 */
export type RequireCurrent = (current: ManagedDatabase) => Promise<void>
/** The attempt of the write, and its preconditions. */
export type Terms = { attempt: Attempt; requireCurrent: RequireCurrent | undefined }
type Change = Pick<Terms, 'attempt'> & {
  /** Returns the services after the change, if the change has any. @throws ApiError */
  servicesAfter?: ((current: ManagedDatabase) => Promise<DecidedServices>) | undefined
  /** Returns the task of this same change, if the change is already running. */
  underway?: (current: ManagedDatabase, services: DecidedServices | undefined) => string | undefined
  requireCurrent?: RequireCurrent | undefined
  decide: Decision
  input: RequestInput
}

/** @throws ApiError 404; errors of the decision */
async function changeDatabase(writer: Writer, id: string, change: Change): Promise<Written> {
  const { context, account } = writer
  const { servicesAfter, underway, requireCurrent, decide, input, attempt } = change
  const { taskId } = attempt
  const object = { namespace: account.namespace, id, what: 'database' as const }
  const { database, operation, begun } = await guarded(object, async () => {
    const current = await readDatabase(context, account.namespace, id)
    const before = earlierAttempt(current, attempt)
    if (before !== undefined) return { database: current, operation: before.operation }
    const services = await servicesAfter?.(current)
    const begun = underway?.(current, services)
    if (begun !== undefined) return { database: current, operation: undefined, begun }
    await requireCurrent?.(current)
    const update = decide(current, services)
    if (update === undefined) return { database: current, operation: undefined }
    const { spec, operation } = update
    const added: Record<string, string> = {
      [annotations.updatedAt]: timeNow(context),
      ...(await keyedWriteAnnotation(context, current, attempt, operation)),
    }
    if (operation !== undefined)
      added[annotations.operation] = renderOperation({
        taskId,
        name: operation,
        hash: desiredHash(desiredStateOf({ ...current, spec })),
      })
    // Write the Secrets before the resource that refers to them. If the write below fails, the operator deletes the
    // unreferenced Secrets.
    await context.serviceSecrets.write(account, id, services?.secrets ?? [])
    const stored = await context.cluster.replace('ManagedDatabase', annotated({ ...current, spec }, added))
    return { database: stored, operation }
  })
  context.caches.ManagedDatabase.writeThrough(database)
  if (operation === undefined) return { database, taskId: begun }
  const subject = { kind: 'database' as const, id, name: database.metadata.name }
  await recordTask(writer, { taskId, name: operation, subject, request: recordedRequestOf(input, database.spec) })
  return { database, taskId }
}

/** @throws ApiError 403 if the plan has no backups; 404, 409, 412 */
export const updateDatabase = (
  writer: Writer,
  id: string,
  input: UpdateDatabaseInput,
  terms: Terms,
): Promise<Written> =>
  changeDatabase(writer, id, {
    ...terms,
    servicesAfter: input.services && (current => updatedServices(writer, current, input.services ?? [])),
    underway: (current, after) => updateUnderway(current, input, after?.services),
    decide: (current, after) => {
      if (input.backup?.durable && !current.spec.backup.durable) requireBackupsInPlan(writer.account)
      return decideUpdate(current, writer.context.caches.Size.list(), input, after?.services)
    },
    input,
  })

/** @throws ApiError 400, 404, 409 */
export async function resizeDatabase(
  writer: Writer,
  id: string,
  input: ResizeDatabaseInput,
  attempt: Attempt,
): Promise<Written> {
  const sizes = await knownSizes(writer.context, input.size)
  return changeDatabase(writer, id, {
    decide: current => decideResize(current, sizes, input.size),
    input,
    attempt,
  })
}

/** Suspends or resumes the database. @throws ApiError 404, 409 */
export const suspendDatabase = (writer: Writer, id: string, suspended: boolean, attempt: Attempt): Promise<Written> =>
  changeDatabase(writer, id, { decide: current => decideSuspension(current, suspended), input: {}, attempt })

/** An action that runs once, and the annotation that requests it. kubectl users set the same annotation. */
type RequestedAction = {
  operation: OperationName
  annotation: string
  input: Record<string, unknown>
  /** @throws ApiError */
  decide: (current: ManagedDatabase) => void
}

/** @throws ApiError 404; errors of the decision */
async function requestAction(writer: Writer, id: string, attempt: Attempt, action: RequestedAction): Promise<Written> {
  const { context, account } = writer
  const { operation: name, annotation, input, decide } = action
  const { taskId } = attempt
  const database = await guarded({ namespace: account.namespace, id, what: 'database' }, async () => {
    const current = await readDatabase(context, account.namespace, id)
    if (earlierAttempt(current, attempt) !== undefined) return current
    decide(current)
    const requested = annotated(current, { [annotation]: timeNow(context) })
    const operation = renderOperation({ taskId, name, hash: desiredHash(desiredStateOf(requested)) })
    const added = {
      [annotations.updatedAt]: timeNow(context),
      [annotations.operation]: operation,
      ...(await keyedWriteAnnotation(context, current, attempt, name)),
    }
    return context.cluster.replace('ManagedDatabase', annotated(requested, added))
  })
  context.caches.ManagedDatabase.writeThrough(database)
  const subject = { kind: 'database' as const, id, name: database.metadata.name }
  await recordTask(writer, { taskId, name, subject, request: input })
  return { database, taskId }
}

/** @throws ApiError 404, 409 */
export const restartDatabase = (writer: Writer, id: string, attempt: Attempt): Promise<Written> =>
  requestAction(writer, id, attempt, {
    operation: 'restart-managed',
    annotation: annotations.restart,
    input: {},
    decide: decideRestart,
  })

/** Requests a new password for a role. @throws ApiError 404, 409 */
export const rotatePassword = (writer: Writer, id: string, role: DatabaseRole, attempt: Attempt): Promise<Written> =>
  requestAction(writer, id, attempt, {
    operation: 'rotate-password-managed',
    annotation: rotationAnnotations[role],
    input: { role },
    decide: decideRotation,
  })

export const annotated = (database: ManagedDatabase, added: Record<string, string>): ManagedDatabase => ({
  ...database,
  metadata: { ...database.metadata, annotations: { ...database.metadata.annotations, ...added } },
})
