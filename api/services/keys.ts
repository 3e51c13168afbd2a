/**
 * The keys and tokens of services: read from the Secrets that services name and from those that the operator creates,
 * and written into new Secrets before the resource that names them. The operator deletes Secrets that no resource
 * names.
 */
import { randomBytes } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import { type Cluster, isClusterError, type Secret } from '../../cluster/index.ts'
import {
  childNames,
  importSourceComponent,
  importSourceField,
  labels,
  managedByEspalier,
  type ServiceConfig,
  serviceKeysName,
  tenantHash,
} from '../../crds/index.ts'
import { SealError } from '../../sealing/credentials.ts'
import {
  openMinted,
  openServiceKeys,
  type ServiceKeys,
  sealedData,
  serviceKeysComponent,
  withoutKeysOfSource,
} from '../../sealing/service-keys.ts'
import { idOf } from '../caches.ts'
import { type CredentialsOwner, unreadable } from '../databases/credentials.ts'
import type { NewImport } from '../databases/import.ts'
import { unavailable } from '../errors.ts'
import type { SealingKey } from '../sealing-key.ts'
import type { Account } from '../tenants.ts'
import type { KeysSecret, KnownService } from './decide.ts'
import { type ShownSecrets, withServiceSecrets } from './render.ts'

export type ServiceSecrets = {
  /** The services of a database or branch with their keys. @throws ApiError 503 if these cannot be read */
  known: (owner: CredentialsOwner) => Promise<KnownService[]>
  /** The text of a read of one object, with its readable secrets. @throws ApiError 503 */
  shown: (owner: CredentialsOwner, text: string) => Promise<{ text: string; containsSecret: boolean }>
  /** @throws ApiError 503 */
  write: (account: Account, ownerId: string, secrets: readonly KeysSecret[]) => Promise<void>
  /** Writes the Secret of an import's source; accepts one written by an earlier attempt. @throws ApiError 503 */
  writeSource: (account: Account, ownerId: string, source: NewImport) => Promise<void>
}

type Parts = { cluster: Cluster; sealingKey: SealingKey; logger: FastifyBaseLogger }

export const newServiceId = (): string => randomBytes(4).toString('hex')
export const newSecretName = (ownerId: string) => (): string => serviceKeysName(ownerId, randomBytes(4).toString('hex'))

/** The keys of a Secret that a branch may share with its source. */
const keysFor = ({ kind }: CredentialsOwner, keys: ServiceKeys): ServiceKeys =>
  kind === 'Branch' ? withoutKeysOfSource(keys) : keys

const shownSecrets = ({ config, keys, token }: KnownService): ShownSecrets =>
  config.serviceType === 'mcp'
    ? {
        embeddingApiKey: keys.embedding_api_key,
        initTokens: keys.init_tokens ?? token,
        initUsers: keys.init_users,
      }
    : { bearerToken: token }

export function createServiceSecrets({ cluster, sealingKey, logger }: Parts): ServiceSecrets {
  async function opened<T>(secret: Secret | undefined, read: (key: Uint8Array, secret: Secret) => T) {
    if (secret === undefined) return undefined
    try {
      return read(await sealingKey.current(), secret)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      sealingKey.forget()
      logger.error({ err: error }, 'keys of a service cannot be decrypted')
      throw unavailable('the keys of a service cannot be read now: retry', error)
    }
  }

  async function get(namespace: string, name: string): Promise<Secret | undefined> {
    try {
      return await cluster.get('Secret', { namespace, name })
    } catch (error) {
      // The operator has not created the API's RoleBinding in this namespace yet.
      if (isClusterError(error, 'Forbidden')) throw unreadable(error)
      throw error
    }
  }

  async function knownService(owner: CredentialsOwner, config: ServiceConfig): Promise<KnownService> {
    const { namespace = '' } = owner.metadata
    const [given, minted] = await Promise.all([
      config.secret && get(namespace, config.secret.name),
      config.serviceType === 'rest'
        ? undefined
        : get(namespace, childNames.serviceSecret(idOf(owner) ?? '', config.serviceId)),
    ])
    const keys = (await opened(given, openServiceKeys)) ?? {}
    const token = await opened(minted, (key, secret) => openMinted(key, secret, 'token'))
    return { config, keys: keysFor(owner, keys), token }
  }

  async function create(
    account: Account,
    ownerId: string,
    { name, keys }: KeysSecret,
    component: string = serviceKeysComponent,
  ): Promise<void> {
    const { namespace, tenantId } = account
    try {
      await cluster.create('Secret', {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          name,
          namespace,
          labels: {
            [labels.database]: ownerId,
            [labels.component]: component,
            [labels.tenant]: tenantHash(tenantId),
            [labels.managedBy]: managedByEspalier,
          },
        },
        type: 'Opaque',
        immutable: true,
        data: sealedData(await sealingKey.current(), { namespace, name }, keys),
      })
    } catch (error) {
      if (component === importSourceComponent && isClusterError(error, 'AlreadyExists')) return
      if (isClusterError(error, 'Forbidden', 'NotFound'))
        throw unavailable('the account is still being set up: retry', error, 5)
      if (!(error instanceof SealError)) throw error
      sealingKey.forget()
      throw unavailable('the keys of a service cannot be stored now: retry', error)
    }
  }

  const known: ServiceSecrets['known'] = owner =>
    Promise.all(owner.spec.services.map(config => knownService(owner, config)))

  return {
    known,
    shown: async (owner, text) => {
      const shown = new Map((await known(owner)).map(service => [service.config.serviceId, shownSecrets(service)]))
      const containsSecret = [...shown.values()].some(secrets =>
        Object.values(secrets).some(value => value !== undefined),
      )
      return containsSecret ? { text: withServiceSecrets(text, shown), containsSecret } : { text, containsSecret }
    },
    write: async (account, ownerId, secrets) => {
      for (const secret of secrets) await create(account, ownerId, secret)
    },
    writeSource: (account, ownerId, { secretName: name, uri }) =>
      create(account, ownerId, { name, keys: { [importSourceField]: uri } }, importSourceComponent),
  }
}
