/** Finds the Postgres address of a database or branch, and the login of one of its roles. */
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase, childNames, visiblePhase } from '../../crds/index.ts'
import { applicationDatabase } from '../../sealing/credentials.ts'
import { idOf } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import { type CredentialsOwner, nameOfRole } from '../databases/credentials.ts'
import { busy } from '../databases/decide.ts'
import { sizeInForce } from '../databases/resize.ts'
import { conflict, retryAfter, unavailable } from '../errors.ts'
import type { UserType } from '../schemas/common.ts'
import type { Target } from './connect.ts'

/** The port of a database's Service. */
const postgresPort = 5432

type TargetContext = Pick<ApiContext, 'caches' | 'readCredentials' | 'openPassword' | 'readAuthority' | 'resolve'>

/**
 * Phases in which Postgres does not run, is stopping, or has not started yet. In other phases, such as failed or
 * degraded, Postgres may still respond.
 */
const withoutPostgres = ['suspended', 'suspending', 'deleting', 'creating', 'resuming']

/** @throws ApiError 409 if no Postgres of the database or branch can serve a request */
export function requireRunning(owner: CredentialsOwner): void {
  if (owner.kind === 'ManagedDatabase') {
    const phase = visiblePhase(owner)
    if (withoutPostgres.includes(phase)) throw busy(phase)
    return
  }
  const phase = branchPhase(owner)
  if (phase !== 'available')
    throw conflict(`the branch is ${phase}: it must be available`, phase === 'creating' ? retryAfter.busy : undefined)
}

/** @throws ApiError 409 if the database does not run; 503 if it cannot be reached */
export async function targetOf(context: TargetContext, owner: CredentialsOwner, role: UserType): Promise<Target> {
  requireRunning(owner)
  const [id, namespace] = [idOf(owner) ?? '', owner.metadata.namespace ?? '']
  const service = childNames.service(id)
  const secret = await context.readCredentials(owner)
  const password = secret && (await context.openPassword(secret, role))
  const ca = await context.readAuthority()
  const address = context.resolve({ namespace, service, port: postgresPort })
  if (password === undefined || ca === undefined)
    throw unavailable('the credentials or the certificate authority do not exist yet: retry')
  if (address === undefined) throw unavailable('Postgres does not run now: retry')
  return {
    ...address,
    serverName: `${service}.${namespace}.svc`,
    ca,
    user: nameOfRole(role),
    password,
    database: applicationDatabase,
  }
}

/** Returns how many connections the size allows; undefined if the size is not in the cache. */
export function connectionsOf({ caches }: Pick<TargetContext, 'caches'>, owner: CredentialsOwner): number | undefined {
  const pinned = owner.kind === 'ManagedDatabase' ? sizeInForce(owner) : owner.spec.size
  const size: Kinds['Size'] | undefined = caches.Size.list().find(
    ({ spec }) => spec.name === pinned.name && spec.version === pinned.version,
  )
  return size?.spec.shape.connections
}
