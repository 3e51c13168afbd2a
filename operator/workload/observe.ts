/**
 * Collects the facts about one owner's Postgres for a pass: its member, its endpoint, and every other object with the
 * owner's uid or id.
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

/** For a kind with objects that are deleted by age. */
export type GuardedObserver = Observer & { clock: ClockGuard }

/** For a kind whose objects have services. */
export type OwnerObserver = GuardedObserver & Pick<ServicesObserver, 'services' | 'hasPgvector'>

/** The observed state. Also passwords and configurations of services, which the plan does not get. */
export type Observation<O extends Observed = Observed> = {
  observed: O
  passwords: Passwords | undefined
  serviceFiles: ServiceFiles
  /** The login of the service `rest`, with its password. */
  authenticator: DesiredAuthenticator | undefined
  /** The storage of the service `mcp` for its conversations, with the password of its role. */
  mcpState: DesiredMcpState | undefined
}

/**
 * Facts about the instance from earlier passes that no object contains. `isCutOff`: gateways cannot connect to a
 * Postgres that the operator can reach.
 */
export type PriorFacts = PriorMemberFacts & { isCutOff: boolean }

type InstanceRequest = Omit<MemberRequest, 'number' | 'keys'> & {
  rotations?: RequestedRotations | undefined
  /** All objects with the owner's uid, and those with its id whose owner does not exist. */
  owned: OwnedObjects
  /** `isCopy`: tokens and users in the services' Secrets are the source's. */
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
    { ...request, number: firstMember, keys, objects: owned },
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
