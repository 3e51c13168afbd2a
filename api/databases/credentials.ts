/**
 * Passwords for `connection`. The API reads them from a database's credentials Secret, and decrypts them with the
 * installation's key. A decrypted password is cached only as long as its Secret object, and appears only in the
 * response.
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
  secretLocation,
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

/** The name of the role in Postgres. */
export const nameOfRole = (userType: UserType): DatabaseRole => roleOf[userType]

/** A database or a branch, with the fields that locate its credentials. */
export type CredentialsOwner = Kinds['ManagedDatabase'] | Kinds['Branch']

/** The credentials Secret of a database or branch, if it exists. Returns synchronously if the Secret is cached. */
export type ReadCredentials = (owner: CredentialsOwner) => Secret | Promise<Secret | undefined>

/**
 * How long a cached Secret is used. When the operator changes a Secret, it also changes the owner, so the API reads the
 * Secret again. Other changes take effect after at most this time.
 */
const lifetimeMs = 5_000

/**
 * Reads each Secret by its name, because the API may neither list nor watch Secrets. A Secret is cached while its owner
 * is the same object (each change creates a new object), and for at most `lifetimeMs`.
 */
export function createCredentialsReader(cluster: Cluster, now: () => number): ReadCredentials {
  const cached = new WeakMap<CredentialsOwner, { secret: Secret; until: number }>()
  const reading = new WeakMap<CredentialsOwner, Promise<Secret | undefined>>()

  const read = async (owner: CredentialsOwner): Promise<Secret | undefined> => {
    const key = { namespace: owner.metadata.namespace, name: childNames.credentials(idOf(owner) ?? '') }
    try {
      const secret = asCredentials(await cluster.get('Secret', key))
      if (secret !== undefined) cached.set(owner, { secret, until: now() + lifetimeMs })
      return secret
    } catch (error) {
      // The operator has not created the API's RoleBinding in this namespace yet, or the RoleBinding was deleted.
      if (isClusterError(error, 'Forbidden')) throw unreadable(error)
      throw error
    } finally {
      reading.delete(owner)
    }
  }

  return owner => {
    const known = cached.get(owner)
    // During a rotation, the Secret changes before the database.
    if (known !== undefined && now() < known.until && !isRotating(owner)) return known.secret
    const underway = reading.get(owner) ?? read(owner)
    reading.set(owner, underway)
    return underway
  }
}

const isRotating = (owner: CredentialsOwner): boolean =>
  owner.kind === 'ManagedDatabase' && Object.keys(awaitedRotations(owner)).length > 0

export const unreadable = (cause: unknown) =>
  unavailable('the credentials of this database cannot be read now: retry', cause)

/** Ignores a Secret of another type. */
const asCredentials = (secret: Secret | undefined): Secret | undefined =>
  secret?.metadata.labels?.[labels.component] === credentialsComponent ? secret : undefined

/**
 * Returns the password of a role; undefined if the Secret has none for the role. @throws ApiError 503 if it cannot be
 * decrypted
 */
export type OpenPassword = (secret: Secret, userType: UserType) => Promise<string | undefined>

export function createPasswordOpener(sealingKey: SealingKey, logger: FastifyBaseLogger): OpenPassword {
  const opened = new WeakMap<Secret, Map<DatabaseRole, string>>()

  return async (secret, userType) => {
    const role = roleOf[userType]
    const known = opened.get(secret)?.get(role)
    if (known !== undefined) return known
    const stored = secret.data?.[role]
    if (stored === undefined) return undefined
    const place = secretLocation(secret.metadata.namespace ?? '', secret.metadata.name, role)
    try {
      const password = open(await sealingKey.current(), place, Buffer.from(stored, 'base64').toString('utf8'))
      const ofSecret = opened.get(secret) ?? new Map<DatabaseRole, string>()
      opened.set(secret, ofSecret.set(role, password))
      return password
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      sealingKey.forget()
      logger.error({ err: error }, 'a password cannot be decrypted')
      throw unreadable(error)
    }
  }
}

/**
 * Whether the password in the Secret is about to be replaced. While a database is `modifying` for a rotation, the API
 * returns only the new password, and no password before the new one exists.
 */
export function awaitsPassword(database: Kinds['ManagedDatabase'], secret: Secret, userType: UserType): boolean {
  const role = roleOf[userType]
  const requested = awaitedRotations(database)[role]
  return requested !== undefined && rotationsOf(secret)[role]?.rotation !== requested
}

/** The connection details of the role at this endpoint. */
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
