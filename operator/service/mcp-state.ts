/**
 * The storage of `mcp` for its conversations: a database that the role `mcp_state` owns, or otherwise each pod's own
 * storage. The operator creates the role's password.
 */
import type { Cluster } from '../../cluster/index.ts'
import { ClusterError } from '../../cluster/index.ts'
import { childNames, type ServiceConfig } from '../../crds/index.ts'
import { openMinted } from '../../sealing/service-keys.ts'
import type { InstallationKeys } from '../keys.ts'
import type { Owner } from '../objects/ownership.ts'
import type { DesiredMcpState } from '../postgres/administrator.ts'
import { ownStateAnnotation } from './deployment.ts'
import type { McpState, MintedSecret, SeenMcpState, ServiceObjects } from './observed.ts'

const isMcp = ({ serviceType }: ServiceConfig): boolean => serviceType === 'mcp'

export const stateSecretOf = (owner: Owner, { serviceId }: ServiceConfig): MintedSecret => ({
  name: childNames.serviceState(owner.id, serviceId),
  field: 'password',
})

/**
 * `seen`: the last answer of Postgres. Before the first answer, the Deployment's annotation decides, so that its pods
 * do not change.
 */
export function mcpStateOf(
  owner: Owner,
  configs: readonly ServiceConfig[],
  { minted, workloads }: ServiceObjects,
  seen: SeenMcpState | undefined,
): McpState | undefined {
  const config = configs.find(isMcp)
  if (config === undefined) return undefined
  const { name } = stateSecretOf(owner, config)
  const secret = minted.find(({ metadata }) => metadata.name === name)
  return {
    login: secret && { secret: name, passwordVersion: secret.metadata.uid ?? '' },
    taken: seen === undefined ? takenBefore(workloads) : seen.kind === 'foreign' ? seen.taken : undefined,
  }
}

function takenBefore(workloads: ServiceObjects['workloads']): McpState['taken'] {
  const own = workloads.filter(({ type }) => type === 'mcp')
  const isOwnState =
    own.length > 0 && own.every(({ deployment }) => ownStateAnnotation in (deployment.metadata.annotations ?? {}))
  return isOwnState ? 'unknown' : undefined
}

/** The desired state, with the observed password. Undefined if the password's Secret cannot be unsealed. */
export const desiredMcpState = (
  owner: Owner,
  state: McpState | undefined,
  password: string | undefined,
): DesiredMcpState => ({
  owner: owner.id,
  isRequested: state !== undefined,
  login:
    state?.login === undefined || password === undefined
      ? undefined
      : { password, passwordVersion: state.login.passwordVersion },
})

/**
 * The current state in the cluster. The operator drops the database only if its owner in the cluster requests no
 * service `mcp`.
 * @throws ClusterError `Conflict` if the Secret or the owner was replaced; SealError
 */
export async function readMcpState(
  cluster: Cluster,
  { sealingKey }: InstallationKeys,
  owner: Owner,
  state: McpState | undefined,
): Promise<DesiredMcpState> {
  const { namespace } = owner
  if (state === undefined) {
    await assertUnrequested(cluster, owner)
    return desiredMcpState(owner, state, undefined)
  }
  if (state.login === undefined) return desiredMcpState(owner, state, undefined)
  const secret = await cluster.get('Secret', { namespace, name: state.login.secret })
  const isSame = secret?.metadata.uid === state.login.passwordVersion
  const password = isSame && sealingKey !== undefined ? openMinted(sealingKey, secret, 'password') : undefined
  if (password === undefined) throw new ClusterError('Conflict', `Secret ${state.login.secret} was replaced`)
  return desiredMcpState(owner, state, password)
}

/** An owner of any kind. */
type WithServices = { metadata: { uid?: string | undefined }; spec?: { services?: readonly ServiceConfig[] } }

async function assertUnrequested(cluster: Cluster, { kind, namespace, name, uid }: Owner): Promise<void> {
  const owner = (await cluster.get(kind, { namespace, name })) as WithServices | undefined
  if (owner?.metadata.uid !== uid || owner.spec?.services?.some(isMcp))
    throw new ClusterError('Conflict', `${kind} ${name} was replaced`)
}
