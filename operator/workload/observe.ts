/**
 * Gathers what a pass needs to know of one owner's Postgres: its member, its endpoint, and everything else that carries the owner's
 * mark or id.
 */
import { firstMember, type ServiceConfig } from '../../crds/index.ts'
import type { Passwords } from '../../sealing/credentials.ts'
import type { OwnedObjects } from '../children/owned.ts'
import type { ClockGuard } from '../clock/guard.ts'
import { observeEndpoint } from '../endpoint/observe.ts'
import type { RequestedRotations } from '../endpoint/observed.ts'
import type { InstallationKeys } from '../keys.ts'
import { type MemberRequest, type Observer, observeMember, type PriorMemberFacts } from '../member/observe.ts'
import { presentAnswer } from '../member/postgres/answer.ts'
import { volumeFacts } from '../member/storage/persistent-volume.ts'
import type { DesiredAuthenticator, DesiredMcpState } from '../postgres/administrator.ts'
import { observeServices, type ServiceFiles, type ServicesObserver } from '../service/observe.ts'
import { childrenOfServices } from '../service/observed.ts'
import type { Observed } from './observed.ts'

/** Of a kind whose objects are deleted by their age. */
export type GuardedObserver = Observer & { clock: ClockGuard }

/** Of a kind whose objects have services. */
export type OwnerObserver = GuardedObserver & Pick<ServicesObserver, 'services' | 'hasPgvector'>

/** What a pass knows, and the passwords and the configuration of services, which the plan does not get to see. */
export type Observation<O extends Observed = Observed> = {
  observed: O
  passwords: Passwords | undefined
  serviceFiles: ServiceFiles
  /** The login of the service `rest`, with its password. */
  authenticator: DesiredAuthenticator | undefined
  /** Where the service `mcp` keeps its conversations, with the password of its role. */
  mcpState: DesiredMcpState | undefined
}

/** Facts known of the instance before the pass, which no object reports. `isCutOff`: gateways cannot connect to a Postgres that the operator reaches. */
export type PriorFacts = PriorMemberFacts & { isCutOff: boolean }

type InstanceRequest = Omit<MemberRequest, 'number'> & {
  rotations?: RequestedRotations | undefined
  /** Everything that is marked as the owner's, or that is nobody's under its id. */
  owned: OwnedObjects
  /** `isCopy`: tokens and users in their Secrets are those of its source. */
  services: { configs: readonly ServiceConfig[]; isCopy: boolean }
}

export async function observeInstance(
  observer: Observer & ServicesObserver,
  { rotations, owned, services: requested, ...request }: InstanceRequest,
  keys: InstallationKeys,
  prior: PriorFacts,
): Promise<Observation<Observed>> {
  const { caches, cluster, now } = observer
  const { observed: member, unlabelled } = await observeMember(
    observer,
    { ...request, number: firstMember, objects: owned },
    prior,
  )
  const gateways = () => caches.gateways.list()
  const endpoint = await observeEndpoint({ cluster, gateways, now }, { member, rotations, objects: owned, keys })
  const { passwords } = endpoint
  const { instance, owner, isAtRest, region } = member
  const { credentials } = endpoint.observed.children
  const answer = presentAnswer(member)
  const {
    services,
    files: serviceFiles,
    login: authenticator,
    mcpState,
  } = await observeServices(observer, {
    ...{ instance, owner, isAtRest, region, owned, credentials, passwords, keys },
    seenMcpState: answer?.state === 'answered' ? answer.mcpState : undefined,
    ...requested,
  })
  return {
    observed: {
      ...member,
      ...endpoint.observed,
      children: { ...member.children, ...endpoint.observed.children },
      keys: {
        sealingKey: keys.sealingKey !== undefined,
        authority: keys.authority !== undefined,
        isChanging: keys.authority?.isChanging === true,
      },
      owned: {
        ...owned,
        pods: unlabelled === undefined ? owned.pods : [...owned.pods, unlabelled],
        volumes: owned.volumes.map(volume => volumeFacts(volume, undefined)),
      },
      isCutOff: prior.isCutOff,
      services,
      serviceChildren: childrenOfServices(services),
    },
    ...{ passwords, serviceFiles, authenticator, mcpState },
  }
}
