/**
 * Gathers what a pass needs to know of one owner's Postgres: its member, its endpoint, and everything else that carries the owner's
 * mark or id.
 */
import { firstMember } from '../../crds/index.ts'
import type { Passwords } from '../../sealing/credentials.ts'
import type { OwnedObjects } from '../children/owned.ts'
import type { ClockGuard } from '../clock/guard.ts'
import { observeEndpoint } from '../endpoint/observe.ts'
import type { RequestedRotations } from '../endpoint/observed.ts'
import type { InstallationKeys } from '../keys.ts'
import { type MemberRequest, type Observer, observeMember, type PriorMemberFacts } from '../member/observe.ts'
import { volumeFacts } from '../member/storage/persistent-volume.ts'
import type { Observed } from './observed.ts'

/** Of a kind whose objects are deleted by their age. */
export type GuardedObserver = Observer & { clock: ClockGuard }

/** What a pass knows, and the passwords, which the plan does not get to see. */
export type Observation<O extends Observed = Observed> = { observed: O; passwords: Passwords | undefined }

/** Facts known of the instance before the pass, which no object reports. `isCutOff`: gateways cannot connect to a Postgres that the operator reaches. */
export type PriorFacts = PriorMemberFacts & { isCutOff: boolean }

type InstanceRequest = Omit<MemberRequest, 'number'> & {
  rotations?: RequestedRotations | undefined
  /** Everything that is marked as the owner's, or that is nobody's under its id. */
  owned: OwnedObjects
}

export async function observeInstance(
  observer: Observer,
  { rotations, owned, ...request }: InstanceRequest,
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
    },
    passwords: endpoint.passwords,
  }
}
