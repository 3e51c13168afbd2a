/**
 * The login of `rest`: the role `authenticator`, whose password the operator creates, and the roles for requests
 * without a token.
 */
import type { Cluster } from '../../cluster/index.ts'
import { ClusterError } from '../../cluster/index.ts'
import { childNames, type ServiceConfig } from '../../crds/index.ts'
import { openMinted } from '../../sealing/service-keys.ts'
import type { InstallationKeys } from '../keys.ts'
import type { Owner } from '../objects/ownership.ts'
import type { DesiredAuthenticator } from '../postgres/administrator.ts'
import { anonymousRoleAnnotation } from './deployment.ts'
import type { ServiceLogin, ServiceObjects } from './observed.ts'

/** Includes workloads that are being replaced, because they still serve. */
export function loginOf(
  owner: Owner,
  configs: readonly ServiceConfig[],
  { minted, workloads }: ServiceObjects,
): ServiceLogin | undefined {
  const config = configs.find(({ serviceType }) => serviceType === 'rest')
  const name = config && childNames.serviceSecret(owner.id, config.serviceId)
  const secret = minted.find(({ metadata }) => metadata.name === name)
  if (config?.rest === undefined || secret === undefined) return undefined
  const before = workloads.flatMap(({ deployment }) => deployment.metadata.annotations?.[anonymousRoleAnnotation] ?? [])
  // Postgres cannot have such a name. It would refuse the complete query.
  const anonymousRoles = [...new Set([config.rest.dbAnonRole, ...before])].filter(role => !role.includes('\0'))
  return { secret: secret.metadata.name, passwordVersion: secret.metadata.uid ?? '', anonymousRoles }
}

/** The current password in the cluster. @throws ClusterError `Conflict` if the Secret was replaced; SealError */
export async function readLogin(
  cluster: Cluster,
  { sealingKey }: InstallationKeys,
  namespace: string,
  { secret: name, passwordVersion, anonymousRoles }: ServiceLogin,
): Promise<DesiredAuthenticator> {
  const secret = await cluster.get('Secret', { namespace, name })
  const password =
    secret?.metadata.uid === passwordVersion && sealingKey !== undefined
      ? openMinted(sealingKey, secret, 'password')
      : undefined
  if (password === undefined) throw new ClusterError('Conflict', `Secret ${name} was replaced`)
  return { password, passwordVersion, anonymousRoles }
}
