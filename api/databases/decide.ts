/**
 * Decides the result of a write to a database, from the current object and the request. Refuses by throwing ApiError.
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
import { storedBackupPolicy } from './backup-policy.ts'
import { storedCredentials } from './connection-secrets.ts'
import type { CreateDatabaseInput, UpdateDatabaseInput } from './schema.ts'
import { refuseVainGrowth, storedStorage } from './storage.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/** Statuses in which no operation runs. They end a long poll. */
export const atRest: readonly DatabasePhase[] = ['available', 'degraded', 'failed', 'suspended']
/**
 * Statuses that accept a change that the operator must apply. `degraded` is included, because a change may repair the
 * database. Other stable statuses accept only changes that need no operator, for example to disable deletion protection
 * of a failed database.
 */
const takesChanges: readonly DatabasePhase[] = ['available', 'degraded']

/**
 * A suspended database stays suspended while a change such as a new size is applied, so its status does not show the
 * change.
 */
const isChangedSuspended = (database: ManagedDatabase): boolean =>
  visiblePhase(database) === 'suspended' && !isInForce(database)

/** Whether no operation runs for the database. A deleted database is stable too. */
export const isStable = (database: ManagedDatabase | undefined): boolean =>
  database === undefined || (atRest.includes(visiblePhase(database)) && !isChangedSuspended(database))

/**
 * @throws ApiError 409 while a change is applied to a suspended database: a second operation would be reported as
 *   failed
 */
export function refuseWhileChangedSuspended(database: ManagedDatabase): void {
  if (isChangedSuspended(database))
    throw conflict(
      'another operation is running for the suspended database: wait until its task has ended, then retry',
      retryAfter.busy,
    )
}

export function busy(phase: DatabasePhase): ApiError {
  switch (phase) {
    case 'suspended':
      return conflict('the database is suspended: resume it, then retry')
    case 'failed':
      return conflict('the database is failed: it does not accept this change; its tasks show the reason')
    case 'deleting':
      return conflict('the database is deleting: it cannot be changed')
    default:
      return conflict(
        `the database is ${phase}: wait until it is available, then retry; its tasks show the reason`,
        retryAfter.busy,
      )
  }
}

/** Fields that the API adds to the request for a new database. */
type OfNew = {
  size: PinnedSize
  pgVersion: PgVersion
  backupName: string | undefined
  /** The Secret that contains the source of an import. */
  importSecret?: string | undefined
  services: readonly ServiceConfig[]
}

/** Returns the complete spec of a new database with its defaults, so that its hash equals the stored object's hash. */
export function specOfNew(
  input: CreateDatabaseInput,
  { size, pgVersion, backupName, importSecret, services }: OfNew,
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
    ...(input.backup === undefined ? {} : { backup: input.backup }),
    ...(backupName === undefined ? {} : { dataSource: { backupName } }),
    ...(importSecret === undefined ? {} : { import: { secretName: importSecret } }),
  })
}

/** The spec after a PATCH. `operation`: present if the operator must apply the change. */
export type Update = { spec: ManagedDatabaseSpec; operation: OperationName | undefined }

/** Operations that the operator applies for a PATCH. */
const updates: readonly OperationName[] = ['update-managed', 'update-managed-ip-allowlists']

const changesNothing = (database: ManagedDatabase, spec: ManagedDatabaseSpec): boolean =>
  canonicalJson(spec) === canonicalJson(database.spec)

/** The services after a PATCH; undefined if the database has none. */
type ServicesAfter = readonly ServiceConfig[] | undefined

/**
 * If an identical PATCH is being applied, returns its task. So a client that lost the response can repeat the request.
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

/** Returns undefined if nothing would change. @throws ApiError 400; 409 while the database is busy */
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
    backup: storedBackupPolicy(rest.backup, input.backup),
    ...(input.deletion_protection === undefined ? {} : { deletionProtection: input.deletion_protection }),
    ...(input.ip_allowlist === undefined ? {} : { ipAllowlist: storedAllowlist(input.ip_allowlist) }),
    ...(input.options === undefined ? {} : { options: input.options }),
    ...(services === undefined ? {} : { services: [...services] }),
  }
}

/** @throws ApiError 409 while the database is busy or not running */
export function decideRestart(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase === 'suspended')
    throw conflict('the database is suspended: a pending restart takes effect when it is resumed')
  if (!takesChanges.includes(phase)) throw busy(phase)
}

/** @throws ApiError 409 unless the database is available: with another status, Postgres may refuse the new password */
export function decideRotation(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase !== 'available') throw busy(phase)
}

/** Resuming also repairs a database that failed, or became degraded, during its suspension. */
const takesResumption: readonly DatabasePhase[] = ['suspended', 'degraded', 'failed']

/** @throws ApiError 409 if the database is already in that state, or is busy */
export function decideSuspension(database: ManagedDatabase, suspended: boolean): Update {
  const phase = visiblePhase(database)
  if (database.spec.suspended === suspended && atRest.includes(phase))
    throw conflict(suspended ? 'the database is already suspended' : 'the database is not suspended')
  if (!(suspended ? takesChanges : takesResumption).includes(phase)) throw busy(phase)
  refuseWhileChangedSuspended(database)
  return { spec: { ...database.spec, suspended }, operation: suspended ? 'suspend-managed' : 'resume-managed' }
}

/**
 * @throws ApiError 409 while a restore or a deletion runs. Until a restore ends, the previous volume may be the only
 *   copy of the data.
 */
export function decidePreviousDeletion(database: ManagedDatabase): void {
  const phase = visiblePhase(database)
  if (phase === 'restoring' || phase === 'deleting') throw busy(phase)
}

/** @throws ApiError 409 if the database has deletion protection, or has branches and `force` is not set */
export function decideDeletion(database: ManagedDatabase, branches: number, force: boolean): void {
  if (database.spec.deletionProtection) {
    throw conflict('the database is protected from deletion: set deletion_protection to false first')
  }
  if (branches > 0 && !force) {
    const [count, them] = branches === 1 ? ['a branch', 'it'] : [`${branches} branches`, 'them']
    throw conflict(`the database has ${count}: delete ${them} first, or repeat the request with force (force=true)`)
  }
}
