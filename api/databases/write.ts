import { isClusterError, type Kinds } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  askedBy,
  defaultPgVersion,
  desiredHash,
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
import { idOf, readOwned } from '../caches.ts'
import { sizeForNew } from '../catalogue/versions.ts'
import type { ApiContext } from '../context.ts'
import { badRequest, limitReached, notFound, unavailable } from '../errors.ts'
import type { Attempt } from '../idempotency/claims.ts'
import { earlierTry, markOf } from '../idempotency/marks.ts'
import type { DecidedServices } from '../services/decide.ts'
import { newServices, updatedServices } from '../services/write.ts'
import { guarded, recordTask, refuseSecondMaking, timeNow, type Writer } from '../writer.ts'
import {
  decideRestart,
  decideRotation,
  decideSuspension,
  decideUpdate,
  specOfNew,
  type Update,
  updateUnderway,
} from './decide.ts'
import { decideResize } from './resize.ts'
import type { CreateDatabaseInput, ResizeDatabaseInput, UpdateDatabaseInput } from './schema.ts'
import { sourceOfNew } from './source.ts'
import { refuseVainGrowth } from './storage.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** What a write left: the object as stored, and the task that follows it, if one does. */
export type Written = { database: ManagedDatabase; taskId: string | undefined }

/** What an object can be called: of anything else the cluster is not asked. */
const regionName = /^[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$/

/** The size a new database gets, pinned. @throws ApiError 400 where region or size cannot be had */
export async function requireOffer({ cluster, caches }: ApiContext, input: CreateDatabaseInput): Promise<PinnedSize> {
  const name = input.region
  const found =
    caches.Region.get({ name }) ?? (regionName.test(name) ? await cluster.get('Region', { name }) : undefined)
  if (found === undefined) {
    const offered = caches.Region.list().map(region => region.metadata.name)
    throw badRequest(`region: there is no such region; on offer: ${offered.sort().join(', ') || 'none'}`)
  }
  const sizes = await knownSizes({ cluster, caches }, input.size)
  const pinned = sizeForNew(sizes, input.size)
  refuseVainGrowth(input.storage, pinned, sizes)
  return pinned
}

/** The sizes on record; the cluster's own word where the cache knows none of this name. */
async function knownSizes({ cluster, caches }: Pick<ApiContext, 'cluster' | 'caches'>, name: string) {
  const cached = caches.Size.list()
  return cached.some(({ spec }) => spec.name === name) ? cached : (await cluster.list('Size')).items
}

/** @throws ApiError 400 for a version that this installation has no image of */
function versionForNew(
  { pgVersions: [newest = defaultPgVersion, ...others] }: ApiContext,
  wanted: PgVersion | undefined,
): PgVersion {
  const version = wanted ?? newest
  if (version === newest || others.includes(version)) return version
  throw badRequest(`pg_version: Postgres ${version} is not on offer here; on offer: ${[newest, ...others].join(', ')}`)
}

/** Creates of each tenant under way in this process, which the cache does not show yet. */
const creating = new WeakMap<ApiContext, Map<string, number>>()

/**
 * Keeps a tenant within its number of databases, and says so before anything is written. Exact within one process; where
 * replicas create in the same instant, the quota that the operator keeps decides, in the same words. @throws ApiError 403
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
    const left = (counts.get(account.namespace) ?? 1) - 1
    if (left > 0) counts.set(account.namespace, left)
    else counts.delete(account.namespace)
  }
}

const nameTaken = (existing: ManagedDatabase | undefined) =>
  badRequest(
    existing?.metadata.deletionTimestamp === undefined
      ? 'name: another database of the account has this name'
      : 'name: a database of this name is still being deleted',
  )

/** The writer of a create, whose tenant is there by then. */
type Creator = Writer & { account: { tenant: Kinds['Tenant'] } }

/** Creates the database of these ids, or finds it made by an earlier try with the same ids. */
export async function createDatabase(writer: Creator, input: CreateDatabaseInput, ids: Attempt): Promise<Written> {
  const { context, account } = writer
  const { cluster, caches } = context
  const size = await requireOffer(context, input)
  const shape = (await knownSizes(context, size.name)).find(
    ({ spec: of }) => of.name === size.name && of.version === size.version,
  )?.spec.shape
  const source = await sourceOfNew(writer, input, shape?.storageSize)
  const pgVersion = versionForNew(context, input.pg_version ?? source?.pgVersion)
  const { services, secrets } = await newServices(writer, { id: ids.objectId, pgVersion }, input.services ?? [])
  const spec = specOfNew(input, { size, pgVersion, backupName: source?.backupName, services })
  const key = { namespace: account.namespace, name: input.name }
  const finished = async (database: ManagedDatabase): Promise<Written> => {
    caches.ManagedDatabase.writeThrough(database)
    const subject = { kind: 'database' as const, id: ids.objectId, name: input.name }
    await recordTask(writer, { taskId: ids.taskId, name: 'create-managed', subject, request: askedOf(input, spec) })
    return { database, taskId: ids.taskId }
  }
  const ours = (existing: ManagedDatabase | undefined) => existing !== undefined && idOf(existing) === ids.objectId

  const existing = await cluster.get('ManagedDatabase', key)
  if (existing !== undefined && ours(existing)) return finished(existing)
  await refuseSecondMaking(writer, ids)
  if (existing !== undefined) throw nameTaken(existing)
  return withinLimit(writer, account.tenant.spec.limits.databases, async () => {
    try {
      await context.serviceSecrets.write(account, ids.objectId, secrets)
      return await finished(await cluster.create('ManagedDatabase', draftOf(writer, input.name, spec, ids)))
    } catch (error) {
      if (isClusterError(error, 'NotFound')) throw unavailable('the account is still being set up: try again', error, 5)
      if (!isClusterError(error, 'AlreadyExists')) throw error
      const winner = await cluster.get('ManagedDatabase', key)
      if (winner !== undefined && ours(winner)) return finished(winner)
      throw nameTaken(winner)
    }
  })
}

function draftOf({ context, account }: Writer, name: string, spec: ManagedDatabase['spec'], ids: Attempt) {
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

/** What a request says; nothing, where its path says it all. */
type Asked = CreateDatabaseInput | UpdateDatabaseInput | ResizeDatabaseInput | Record<string, never>

/** What was asked, in the form in which it is stored: what an input holds beyond that is ignored, here too. */
const askedOf = (
  input: Asked,
  { ipAllowlist }: Pick<ManagedDatabase['spec'], 'ipAllowlist'>,
): Record<string, unknown> => ({
  ...input,
  ...(!('ip_allowlist' in input) || input.ip_allowlist === undefined ? {} : { ip_allowlist: ipAllowlist }),
})

/** A change of a spec, decided on the object as it is; undefined: nothing would change. */
type Decision = (current: ManagedDatabase, services: DecidedServices | undefined) => Update | undefined
/** Refuses where the object is not the one that was meant. @throws ApiError 412 */
export type RequireCurrent = (current: ManagedDatabase) => Promise<void>
/** Which try of the write it is, and on what it depends. */
export type Terms = { attempt: Attempt; requireCurrent: RequireCurrent | undefined }
type Change = Pick<Terms, 'attempt'> & {
  /** The services after the change, where it gives any. @throws ApiError */
  servicesAfter?: ((current: ManagedDatabase) => Promise<DecidedServices>) | undefined
  /** The task of this very change, where it is under way already. */
  underway?: (current: ManagedDatabase, services: DecidedServices | undefined) => string | undefined
  requireCurrent?: RequireCurrent | undefined
  decide: Decision
  asked: Asked
}

/** @throws ApiError 404, and what the decision throws */
async function changeDatabase(writer: Writer, id: string, change: Change): Promise<Written> {
  const { context, account } = writer
  const { servicesAfter, underway, requireCurrent, decide, asked, attempt } = change
  const { taskId } = attempt
  const object = { namespace: account.namespace, id, what: 'database' as const }
  const { database, operation, begun } = await guarded(object, async () => {
    const current = await readOwned(context.cluster, 'ManagedDatabase', account.namespace, id)
    if (current === undefined) throw notFound('database')
    const before = earlierTry(current, attempt)
    if (before !== undefined) return { database: current, operation: before.operation }
    const services = await servicesAfter?.(current)
    const begun = underway?.(current, services)
    if (begun !== undefined) return { database: current, operation: undefined, begun }
    await requireCurrent?.(current)
    const update = decide(current, services)
    if (update === undefined) return { database: current, operation: undefined }
    const { spec, operation } = update
    const marks: Record<string, string> = {
      [annotations.updatedAt]: timeNow(context),
      ...(await markOf(context, current, attempt, operation)),
    }
    if (operation !== undefined)
      marks[annotations.operation] = renderOperation({
        taskId,
        name: operation,
        hash: desiredHash(askedBy({ ...current, spec })),
      })
    // What a resource names is there before it. Where the write below fails, the operator deletes what nothing names.
    await context.serviceSecrets.write(account, id, services?.secrets ?? [])
    const stored = await context.cluster.replace('ManagedDatabase', annotated({ ...current, spec }, marks))
    return { database: stored, operation }
  })
  context.caches.ManagedDatabase.writeThrough(database)
  if (operation === undefined) return { database, taskId: begun }
  const subject = { kind: 'database' as const, id, name: database.metadata.name }
  await recordTask(writer, { taskId, name: operation, subject, request: askedOf(asked, database.spec) })
  return { database, taskId }
}

/** @throws ApiError 404, 409, 412 */
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
    decide: (current, after) => decideUpdate(current, writer.context.caches.Size.list(), input, after?.services),
    asked: input,
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
    asked: input,
    attempt,
  })
}

/** Suspends it, or resumes it. @throws ApiError 404, 409 */
export const suspendDatabase = (writer: Writer, id: string, suspended: boolean, attempt: Attempt): Promise<Written> =>
  changeDatabase(writer, id, { decide: current => decideSuspension(current, suspended), asked: {}, attempt })

/** An action that is done once, and the annotation that requests it, as for kubectl. */
type RequestedAction = {
  operation: OperationName
  annotation: string
  asked: Record<string, unknown>
  /** @throws ApiError */
  decide: (current: ManagedDatabase) => void
}

/** @throws ApiError 404, and what the decision throws */
async function requestAction(writer: Writer, id: string, attempt: Attempt, action: RequestedAction): Promise<Written> {
  const { context, account } = writer
  const { operation: name, annotation, asked, decide } = action
  const { taskId } = attempt
  const database = await guarded({ namespace: account.namespace, id, what: 'database' }, async () => {
    const current = await readOwned(context.cluster, 'ManagedDatabase', account.namespace, id)
    if (current === undefined) throw notFound('database')
    if (earlierTry(current, attempt) !== undefined) return current
    decide(current)
    const asking = annotated(current, { [annotation]: timeNow(context) })
    const operation = renderOperation({ taskId, name, hash: desiredHash(askedBy(asking)) })
    const marks = {
      [annotations.updatedAt]: timeNow(context),
      [annotations.operation]: operation,
      ...(await markOf(context, current, attempt, name)),
    }
    return context.cluster.replace('ManagedDatabase', annotated(asking, marks))
  })
  context.caches.ManagedDatabase.writeThrough(database)
  const subject = { kind: 'database' as const, id, name: database.metadata.name }
  await recordTask(writer, { taskId, name, subject, request: asked })
  return { database, taskId }
}

/** @throws ApiError 404, 409 */
export const restartDatabase = (writer: Writer, id: string, attempt: Attempt): Promise<Written> =>
  requestAction(writer, id, attempt, {
    operation: 'restart-managed',
    annotation: annotations.restart,
    asked: {},
    decide: decideRestart,
  })

/** Has a role's password replaced. @throws ApiError 404, 409 */
export const rotatePassword = (writer: Writer, id: string, role: DatabaseRole, attempt: Attempt): Promise<Written> =>
  requestAction(writer, id, attempt, {
    operation: 'rotate-password-managed',
    annotation: rotationAnnotations[role],
    asked: { role },
    decide: decideRotation,
  })

export const annotated = (database: ManagedDatabase, marks: Record<string, string>): ManagedDatabase => ({
  ...database,
  metadata: { ...database.metadata, annotations: { ...database.metadata.annotations, ...marks } },
})
