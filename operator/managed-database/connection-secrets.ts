/**
 * Connection Secrets: one for each role, for clients inside the cluster, if the database requests them. The names are
 * `NAME-app`, `NAME-admin` and `NAME-app-read-only`. The keys are those that Helm charts expect. The Secrets contain
 * plaintext passwords. The operator never changes a Secret with such a name that belongs to another owner.
 */
import type { Cluster, Draft, Secret } from '../../cluster/index.ts'
import { ClusterError, isClusterError } from '../../cluster/index.ts'
import type { ManagedDatabase, ObjectMeta } from '../../crds/index.ts'
import { labels } from '../../crds/index.ts'
import { applicationDatabase, type DatabaseRole, databaseRoles, type Passwords } from '../../sealing/credentials.ts'
import type { InstallationKeys } from '../keys.ts'
import { childMetadata, type Owner, ownerUidOf } from '../objects/ownership.ts'

const component = 'connection'

export const connectionSecretName = (database: string, role: DatabaseRole): string =>
  `${database}-${role.replaceAll('_', '-')}`

/** `foreign`: a Secret with this name belongs to another owner. `metadata`: that of the database's existing Secret. */
export type ConnectionSecret = { role: DatabaseRole; name: string } & (
  | { state: 'absent' | 'foreign' }
  | { state: 'outdated' | 'current'; metadata: ObjectMeta }
)

export type ConnectionSecrets = {
  isRequested: boolean
  /** One for each role. Empty if they are not requested, or if their contents are not yet known. */
  wanted: ConnectionSecret[]
  /** The database's Secrets that are no longer requested. */
  unwanted: ObjectMeta[]
}

/** The inputs for the contents of a connection Secret. */
type Content = {
  owner: Owner | undefined
  passwords: Passwords | undefined
  keys: InstallationKeys
}

const encoded = (values: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))

function connectionSecretDraft(
  database: ManagedDatabase,
  role: DatabaseRole,
  { owner, passwords, keys }: Content,
): Draft<'Secret'> | undefined {
  const endpoint = database.status?.endpoint
  const { authority } = keys
  if (owner === undefined || passwords === undefined || endpoint === undefined || authority === undefined)
    return undefined
  const { host } = endpoint
  const port = String(endpoint.port)
  const password = passwords[role]
  const address = `${host}:${port}/${applicationDatabase}`
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'kubernetes.io/basic-auth',
    metadata: childMetadata(owner, connectionSecretName(owner.name, role), component),
    data: encoded({
      username: role,
      user: role,
      password,
      host,
      port,
      dbname: applicationDatabase,
      uri: `postgresql://${role}:${password}@${address}?sslmode=require`,
      'jdbc-uri': `jdbc:postgresql://${address}?user=${role}&password=${password}&sslmode=require`,
      pgpass: `${host}:${port}:${applicationDatabase}:${role}:${password}\n`,
      sslrootcert: authority.bundle,
    }),
  }
}

const includes = (found: Record<string, string> = {}, wanted: Record<string, string> = {}): boolean =>
  Object.entries(wanted).every(([key, value]) => found[key] === value)

const isSame = (found: Secret, wanted: Draft<'Secret'>): boolean =>
  includes(found.data, wanted.data) &&
  Object.keys(found.data ?? {}).length === Object.keys(wanted.data ?? {}).length &&
  includes(found.metadata.labels, wanted.metadata.labels) &&
  includes(found.metadata.annotations, wanted.metadata.annotations)

/**
 * `secrets`: the database's Secrets in the cache. A Secret with the same name and another owner is not among them, so
 * missing names are read from the cluster.
 */
export async function observeConnectionSecrets(
  cluster: Cluster,
  database: ManagedDatabase,
  secrets: readonly Secret[],
  content: Content,
): Promise<ConnectionSecrets> {
  const own = secrets.filter(({ metadata }) => metadata.labels?.[labels.component] === component)
  const isRequested = database.spec.credentials?.secrets === true
  const namesOf = new Set(databaseRoles.map(role => connectionSecretName(database.metadata.name, role)))
  const unwanted = own
    .map(({ metadata }) => metadata)
    .filter(({ name, deletionTimestamp }) => !(isRequested && namesOf.has(name)) && deletionTimestamp === undefined)
  if (!isRequested) return { isRequested, wanted: [], unwanted }
  const wanted = await Promise.all(
    databaseRoles.map(async (role): Promise<ConnectionSecret[]> => {
      const draft = connectionSecretDraft(database, role, content)
      if (draft === undefined) return []
      const { name, namespace } = draft.metadata
      const found =
        own.find(({ metadata }) => metadata.name === name) ?? (await cluster.get('Secret', { namespace, name }))
      if (found === undefined) return [{ role, name, state: 'absent' }]
      if (ownerUidOf(found) !== database.metadata.uid) return [{ role, name, state: 'foreign' }]
      return [{ role, name, state: isSame(found, draft) ? 'current' : 'outdated', metadata: found.metadata }]
    }),
  )
  return { isRequested, wanted: wanted.flat(), unwanted }
}

/**
 * Creates the Secret, or replaces the observed version. So an operator that was frozen gets a conflict, and does not
 * overwrite a newer password with an older one. Keeps the metadata of other clients.
 */
export async function writeConnectionSecret(
  cluster: Cluster,
  database: ManagedDatabase,
  { role, ...secret }: ConnectionSecret,
  content: Content,
): Promise<void> {
  const draft = connectionSecretDraft(database, role, content)
  if (draft === undefined) return
  if (secret.state === 'absent')
    try {
      await cluster.create('Secret', draft)
    } catch (error) {
      if (isClusterError(error, 'AlreadyExists')) throw new ClusterError('Conflict', error.message)
      throw error
    }
  if (secret.state !== 'outdated') return
  const metadata = {
    ...secret.metadata,
    labels: { ...secret.metadata.labels, ...draft.metadata.labels },
    annotations: { ...secret.metadata.annotations, ...draft.metadata.annotations },
  }
  await cluster.replace('Secret', { ...draft, metadata })
}
