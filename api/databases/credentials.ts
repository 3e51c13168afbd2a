/**
 * Passwords for `connection`: read from a database's credentials Secret and opened with the installation's key. An
 * opened password is kept no longer than the Secret object it came from, and goes nowhere but into the answer.
 */
import type { FastifyBaseLogger } from 'fastify'
import { type Cluster, isClusterError, type Kinds, type Secret } from '../../cluster/index.ts'
import { awaitedRotations, childNames, type Endpoint, labels } from '../../crds/index.ts'
import {
  applicationDatabase,
  type DatabaseRole,
  open,
  rotationsOf,
  SealError,
  secretPlace,
} from '../../sealing/credentials.ts'
import { credentialsComponent, idOf } from '../caches.ts'
import { unavailable } from '../errors.ts'
import type { Connection, UserType } from '../schemas/common.ts'
import type { SealingKey } from '../sealing-key.ts'

const roleOf: Record<UserType, DatabaseRole> = {
  application: 'app',
  admin: 'admin',
  application_read_only: 'app_read_only',
}

/** A database or a branch, by which its credentials are found. */
export type CredentialsOwner = Kinds['ManagedDatabase'] | Kinds['Branch']

/** The credentials Secret of a database or branch, if it exists; at once where it was read a moment ago. */
export type ReadCredentials = (owner: CredentialsOwner) => Secret | Promise<Secret | undefined>

/**
 * How long a Secret is used after it was read. What the operator does to a Secret also changes its owner, for which it is
 * read again; this bounds what others do.
 */
const keptMs = 5_000

/**
 * Reads each Secret by its name: the API may neither list nor watch Secrets. One is kept for as long as its owner has not
 * changed, which is a new object with each change, and `keptMs` at most.
 */
export function createCredentialsReader(cluster: Cluster, now: () => number): ReadCredentials {
  const kept = new WeakMap<CredentialsOwner, { secret: Secret; until: number }>()
  const reading = new WeakMap<CredentialsOwner, Promise<Secret | undefined>>()

  const read = async (owner: CredentialsOwner): Promise<Secret | undefined> => {
    const key = { namespace: owner.metadata.namespace, name: childNames.credentials(idOf(owner) ?? '') }
    try {
      const secret = asCredentials(await cluster.get('Secret', key))
      if (secret !== undefined) kept.set(owner, { secret, until: now() + keptMs })
      return secret
    } catch (error) {
      // The operator has not bound the API in this namespace yet, or somebody has deleted the RoleBinding.
      if (isClusterError(error, 'Forbidden')) throw unreadable(error)
      throw error
    } finally {
      reading.delete(owner)
    }
  }

  return owner => {
    const known = kept.get(owner)
    // During a rotation its Secret changes before it does.
    if (known !== undefined && now() < known.until && !isRotating(owner)) return known.secret
    const underway = reading.get(owner) ?? read(owner)
    reading.set(owner, underway)
    return underway
  }
}

const isRotating = (owner: CredentialsOwner): boolean =>
  owner.kind === 'ManagedDatabase' && Object.keys(awaitedRotations(owner)).length > 0

export const unreadable = (cause: unknown) =>
  unavailable('the credentials of this database cannot be read at present: try again', cause)

/** Only a Secret that says it holds credentials is read as such. */
const asCredentials = (secret: Secret | undefined): Secret | undefined =>
  secret?.metadata.labels?.[labels.component] === credentialsComponent ? secret : undefined

/** The password of a role; undefined where the Secret holds none for it. @throws ApiError 503 where it cannot be opened */
export type OpenPassword = (secret: Secret, userType: UserType) => Promise<string | undefined>

export function createPasswordOpener(sealingKey: SealingKey, logger: FastifyBaseLogger): OpenPassword {
  const opened = new WeakMap<Secret, Map<DatabaseRole, string>>()

  return async (secret, userType) => {
    const role = roleOf[userType]
    const known = opened.get(secret)?.get(role)
    if (known !== undefined) return known
    const stored = secret.data?.[role]
    if (stored === undefined) return undefined
    const place = secretPlace(secret.metadata.namespace ?? '', secret.metadata.name, role)
    try {
      const password = open(await sealingKey.current(), place, Buffer.from(stored, 'base64').toString('utf8'))
      const ofSecret = opened.get(secret) ?? new Map<DatabaseRole, string>()
      opened.set(secret, ofSecret.set(role, password))
      return password
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      sealingKey.forget()
      logger.error({ err: error }, 'a password cannot be opened')
      throw unreadable(error)
    }
  }
}

/**
 * Whether another password than the Secret's is about to be made: while a database is `modifying` for a rotation, what is
 * shown is the new one, and nothing before that is there.
 */
export function awaitsPassword(database: Kinds['ManagedDatabase'], secret: Secret, userType: UserType): boolean {
  const role = roleOf[userType]
  const asked = awaitedRotations(database)[role]
  return asked !== undefined && rotationsOf(secret)[role]?.rotation !== asked
}

/** What a client needs to connect as the role, at this endpoint. */
export function renderConnection(endpoint: Endpoint, userType: UserType, password: string): Connection {
  return {
    username: roleOf[userType],
    password,
    port: endpoint.port,
    database: applicationDatabase,
    host: endpoint.host,
    ...(endpoint.externalIpAddress === undefined ? {} : { external_ip_address: endpoint.externalIpAddress }),
  }
}
