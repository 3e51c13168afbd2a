/**
 * The observed state of one owner's Postgres: its member, its endpoint, and facts that concern both. Read from the
 * caches by observe.ts; it contains no secret.
 */

import type { AnyObject } from '../../cluster/index.ts'
import type { OwnedObjects } from '../children/owned.ts'
import type { EndpointChildren, ObservedEndpoint } from '../endpoint/observed.ts'
import type { MemberChildren, ObservedMember } from '../member/observed.ts'
import type { VolumeFacts } from '../member/storage/persistent-volume.ts'
import type { ObservedServices } from '../service/observed.ts'

/** Whether the installation's keys exist: nothing is done without them, and they are never created again. */
type KeysFacts = {
  sealingKey: boolean
  authority: boolean
  /** One authority is being replaced by another: the replacement waits for every server. */
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
    /** Gateways cannot connect to a Postgres that the operator reaches. */
    isCutOff: boolean
    services: ObservedServices
    /** All children of services, for the code that writes them. */
    serviceChildren: readonly AnyObject[]
  }

/** The members of an owner, the serving one first: at present there is only that one. */
export const membersOf = (observed: Observed): readonly [ObservedMember, ...ObservedMember[]] => [observed]
