/**
 * What a write to a database comes to: pure functions of the object as it is now and of what is asked. They refuse by
 * throwing ApiError.
 */
import type { Kinds } from '../../cluster/index.ts'
import {
  canonicalJson,
  type DatabasePhase,
  desiredDigests,
  desiredHash,
  isInForce,
  type ManagedDatabaseSpec,
  managedDatabase,
  type OperationName,
  operationOfChange,
  type PgVersion,
  type PinnedSize,
  readOperation,
  type ServiceConfig,
  visiblePhase,
} from '../../crds/index.ts'
import { type ApiError, conflict, retryAfter } from '../errors.ts'
import { storedAllowlist } from './allowlist.ts'
import { storedCredentials } from './connection-secrets.ts'
import type { CreateDatabaseInput, UpdateDatabaseInput } from './schema.ts'
import { refuseVainGrowth, storedStorage } from './storage.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** Nothing is under way: what a long poll waits for. */
export const atRest: readonly DatabasePhase[] = ['available', 'degraded', 'failed', 'suspended']
/**
 * Where a change that the operator has to bring into force is taken: a database that serves, or one that is degraded,
 * since a change is how its user repairs it. The others at rest take changes that need no operator, so that the
 * deletion protection of a failed database can still be lifted.
 */
const takesChanges: readonly DatabasePhase[] = ['available', 'degraded']

/** A database that is suspended stays so while a change, as a new size, comes into force: its status does not tell. */
const isChangedSuspended = (database: ManagedDatabase): boolean =>
  visiblePhase(database) === 'suspended' && !isInForce(database)

/** Whether nothing is under way for the object; one that is gone has settled too. */
export const isSettled = (database: ManagedDatabase | undefined): boolean =>
  database === undefined || (atRest.includes(visiblePhase(database)) && !isChangedSuspended(database))

/** @throws ApiError 409: an operation that nothing shows would be taken for failed, whatever comes of it */
export function refuseWhileChangedSuspended(database: ManagedDatabase): void {
  if (isChangedSuspended(database))
    throw conflict(
      'another operation is under way for the suspended database: wait until its task has ended, then try again',
      retryAfter.busy,
    )
}

export function busy(phase: DatabasePhase): ApiError {
  switch (phase) {
    case 'suspended':
      return conflict('the database is suspended: resume it, then try again')
    case 'failed':
      return conflict('the database is failed: it takes no such change; its tasks say what is wrong')
    case 'deleting':
      return conflict('the database is deleting: it takes no changes any more')
    default:
      return conflict(
        `the database is ${phase}: wait until it is available, then try again; its tasks say what holds it up`,
        retryAfter.busy,
      )
  }
}

/** What the API adds to what was asked of a new database. */
type OfNew = {
  size: PinnedSize
  pgVersion: PgVersion
  backupName: string | undefined
  services: readonly ServiceConfig[]
}

/** The whole spec of a new database, defaults included, so that its hash is the stored object's. */
export function specOfNew(
  input: CreateDatabaseInput,
  { size, pgVersion, backupName, services }: OfNew,
): ManagedDatabaseSpec {
  return managedDatabase.spec.parse({
    region: input.region,
    size,
    pgVersion,
    ...(typeof input.display_name === 'string' ? { displayName: input.display_name } : {}),
    ...(input.ip_allowlist === undefined ? {} : { ipAllowlist: storedAllowlist(input.ip_allowlist) }),
    options: input.options ?? [],
    services,
    storage: storedStorage(undefined, input.storage),
    credentials: storedCredentials(undefined, input.credentials),
    ...(backupName === undefined ? {} : { dataSource: { backupName } }),
  })
}

/** What a PATCH makes of a spec; `operation` where the operator has to act. */
export type Update = { spec: ManagedDatabaseSpec; operation: OperationName | undefined }

/** What a PATCH has the operator do, by which it is told from another operation. */
const updates: readonly OperationName[] = ['update-managed', 'update-managed-ip-allowlists']

const changesNothing = (database: ManagedDatabase, spec: ManagedDatabaseSpec): boolean =>
  canonicalJson(spec) === canonicalJson(database.spec)

/** The services after a PATCH; undefined where it gives none. */
type ServicesAfter = readonly ServiceConfig[] | undefined

/**
 * The task of the very PATCH that is asked for, which is being brought into force: whoever has lost its answer asks again.
 */
export function updateUnderway(
  database: ManagedDatabase,
  input: UpdateDatabaseInput,
  services: ServicesAfter,
): string | undefined {
  if (visiblePhase(database) !== 'modifying') return undefined
  if (!changesNothing(database, updatedSpec(database.spec, input, services))) return undefined
  const operation = readOperation(database)
  return operation !== undefined && updates.includes(operation.name) ? operation.taskId : undefined
}

/** Undefined where nothing would change. @throws ApiError 400, 409 while the database is busy */
export function decideUpdate(
  database: ManagedDatabase,
  sizes: readonly Kinds['Size'][],
  input: UpdateDatabaseInput,
  services: ServicesAfter,
): Update | undefined {
  refuseVainGrowth(input.storage, database.spec.size, sizes)
  const phase = visiblePhase(database)
  if (!atRest.includes(phase)) throw busy(phase)
  const spec = updatedSpec(database.spec, input, services)
  if (changesNothing(database, spec)) return undefined
  if (desiredHash(spec) === desiredHash(database.spec)) return { spec, operation: undefined }
  if (!takesChanges.includes(phase)) throw busy(phase)
  return { spec, operation: operationOfChange(desiredDigests(database.spec), desiredDigests(spec)) }
}

function updatedSpec(
  current: ManagedDatabaseSpec,
  input: UpdateDatabaseInput,
  services: ServicesAfter,
): ManagedDatabaseSpec {
  const { displayName: currentName, storage: currentStorage, credentials: currentCredentials, ...rest } = current
  const storage = storedStorage(currentStorage, input.storage)
  const credentials = storedCredentials(currentCredentials, input.credentials)
  const displayName = input.display_name === undefined ? currentName : (input.display_name ?? undefined)
  return {
    ...rest,
    ...(storage === undefined ? {} : { storage }),
    ...(credentials === undefined ? {} : { credentials }),
    ...(displayName === undefined ? {} : { displayName }),
    ...(input.deletion_protection === undefined ? {} : { deletionProtection: input.deletion_protection }),
    ...(input.ip_allowlist === undefined ? {} : { ipAllowlist: storedAllowlist(input.ip_allowlist) }),
    ...(input.options === undefined ? {} : { options: input.options }),
    ...(services === undefined ? {} : { services: [...services] }),
  }
}

/** @throws ApiError 409 while the database is busy, or does not run */
export function decideRestart(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase === 'suspended')
    throw conflict('the database is suspended: what waits for a restart takes effect when it is resumed')
  if (!takesChanges.includes(phase)) throw busy(phase)
}

/** @throws ApiError 409 unless it is available: only then is it certain that Postgres takes the new password */
export function decideRotation(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase !== 'available') throw busy(phase)
}

/** One that failed, or is degraded, while it was to be suspended is mended by its resumption, too. */
const takesResumption: readonly DatabasePhase[] = ['suspended', 'degraded', 'failed']

/** @throws ApiError 409 where it is so already, and while the database is busy */
export function decideSuspension(database: ManagedDatabase, suspended: boolean): Update {
  const phase = visiblePhase(database)
  if (database.spec.suspended === suspended && atRest.includes(phase))
    throw conflict(suspended ? 'the database is suspended already' : 'the database is not suspended')
  if (!(suspended ? takesChanges : takesResumption).includes(phase)) throw busy(phase)
  refuseWhileChangedSuspended(database)
  return { spec: { ...database.spec, suspended }, operation: suspended ? 'suspend-managed' : 'resume-managed' }
}

/** @throws ApiError 409 while a restore runs: until it is over, the volume before may be all that there is */
export function decidePreviousDeletion(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase === 'restoring' || phase === 'deleting') throw busy(phase)
}

/** @throws ApiError 409 under deletion protection, or with branches and without force */
export function decideDeletion(database: ManagedDatabase, branches: number, force: boolean): void {
  if (database.spec.deletionProtection) {
    throw conflict('the database is protected from deletion: set deletion_protection to false first')
  }
  if (branches > 0 && !force) {
    const [count, them] = branches === 1 ? ['a branch', 'it'] : [`${branches} branches`, 'them']
    throw conflict(`the database has ${count}: delete ${them} first, or give force=true`)
  }
}
