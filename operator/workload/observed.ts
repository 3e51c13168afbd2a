/**
 * The observed state of one owner's Postgres: its member, its endpoint, and facts about both. `observe.ts` reads it
 * from the caches. Contains no secret.
 */

import type { AnyObject } from '../../cluster/index.ts'
import type { OwnedObjects } from '../children/owned.ts'
import type { EndpointChildren, ObservedEndpoint } from '../endpoint/observed.ts'
import type { MemberChildren, ObservedMember } from '../member/observed.ts'
import type { VolumeFacts } from '../member/storage/persistent-volume.ts'
import type { ObservedServices } from '../service/observed.ts'

/** Whether the installation's keys exist. Without them the operator does nothing. It never creates them again. */
type KeysFacts = {
  sealingKey: boolean
  authority: boolean
  /** The operator is replacing one authority by another. The replacement waits for every server. */
  isChanging: boolean
}

/** The owner's objects in the cluster, with the facts of its volumes. */
export type ObservedObjects = Omit<OwnedObjects, 'volumes'> & { volumes: VolumeFacts[] }

type Children = MemberChildren & EndpointChildren

export type Observed = ObservedMember &
  ObservedEndpoint & {
    keys: KeysFacts
    children: Children
    owned: ObservedObjects
    /** Gateways cannot connect to a Postgres that the operator can reach. */
    isCutOff: boolean
    services: ObservedServices
    /** All children of services, for the code that writes them. */
    serviceChildren: readonly AnyObject[]
  }

/** The members of an owner, the serving member first. At present there is only this member. */
export const membersOf = (observed: Observed): readonly [ObservedMember, ...ObservedMember[]] => [observed]
