/**
 * Passwords for `connection`: read from a database's credentials Secret and opened with the installation's key. An
 * opened password is kept no longer than the Secret object it came from, and goes nowhere but into the answer.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Cluster, Kinds, ObjectKey, Secret } from '../../cluster/index.ts'
import { awaitedRotations, childNames, type Endpoint, labels, systemNamespace } from '../../crds/index.ts'
import {
  applicationDatabase,
  type DatabaseRole,
  open,
  rotationsOf,
  SealError,
  sealingKeySecret,
  secretPlace,
} from '../../sealing/credentials.ts'
import { type Caches, credentialsComponent, idOf } from '../caches.ts'
import { unavailable } from '../errors.ts'
import type { Connection, UserType } from '../schemas/common.ts'

const roleOf: Record<UserType, DatabaseRole> = {
  application: 'app',
  admin: 'admin',
  application_read_only: 'app_read_only',
}

/** A database or a branch, by which its credentials are found. */
type CredentialsOwner = Kinds['ManagedDatabase'] | Kinds['Branch']

/** The credentials Secret of a database or branch, as far as it is there; at once where the cache has it. */
export type ReadCredentials = (owner: CredentialsOwner) => Secret | Promise<Secret | undefined>

export function createCredentialsReader(cluster: Cluster, cache: Caches['Secret']): ReadCredentials {
  const keys = new WeakMap<CredentialsOwner, ObjectKey>()
  const keyOf = (owner: CredentialsOwner): ObjectKey => {
    const known = keys.get(owner)
    if (known !== undefined) return known
    const made = { namespace: owner.metadata.namespace, name: childNames.credentials(idOf(owner) ?? '') }
    keys.set(owner, made)
    return made
  }
  return owner => {
    const key = keyOf(owner)
    return cache.get(key) ?? cluster.get('Secret', key).then(asCredentials)
  }
}

/** Only a Secret that says it holds credentials is read as such. */
const asCredentials = (secret: Secret | undefined): Secret | undefined =>
  secret?.metadata.labels?.[labels.component] === credentialsComponent ? secret : undefined

/** The password of a role; undefined where the Secret holds none for it. @throws ApiError 503 where it cannot be opened */
export type OpenPassword = (secret: Secret, userType: UserType) => Promise<string | undefined>

export function createPasswordOpener(cluster: Cluster, logger: FastifyBaseLogger): OpenPassword {
  const opened = new WeakMap<Secret, Map<DatabaseRole, string>>()
  let sealingKey: Promise<Uint8Array> | undefined

  async function readKey(): Promise<Uint8Array> {
    const secret = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
    const key = Buffer.from(secret?.data?.key ?? '', 'base64')
    if (key.length !== 32) throw new SealError(`the Secret ${sealingKeySecret} holds no key`)
    return key
  }

  /** Read once; again after a failure, so that a key put back is found. */
  function currentKey(): Promise<Uint8Array> {
    if (sealingKey === undefined) {
      const reading = readKey()
      sealingKey = reading
      reading.catch(() => {
        if (sealingKey === reading) sealingKey = undefined
      })
    }
    return sealingKey
  }

  return async (secret, userType) => {
    const role = roleOf[userType]
    const known = opened.get(secret)?.get(role)
    if (known !== undefined) return known
    const stored = secret.data?.[role]
    if (stored === undefined) return undefined
    const place = secretPlace(secret.metadata.namespace ?? '', secret.metadata.name, role)
    try {
      const password = open(await currentKey(), place, Buffer.from(stored, 'base64').toString('utf8'))
      const ofSecret = opened.get(secret) ?? new Map<DatabaseRole, string>()
      opened.set(secret, ofSecret.set(role, password))
      return password
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      sealingKey = undefined
      logger.error({ err: error }, 'a password cannot be opened')
      throw unavailable('the credentials of this database cannot be read at present: try again', error)
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
