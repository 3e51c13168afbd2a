/**
 * All that a pass knows of one owner's Postgres: its member, its endpoint, and what composes the two. Gathered from the caches by
 * observe.ts; no secret is among it.
 */

import type { AnyObject } from '../../cluster/index.ts'
import type { OwnedObjects } from '../children/owned.ts'
import type { EndpointChildren, ObservedEndpoint } from '../endpoint/observed.ts'
import type { MemberChildren, ObservedMember } from '../member/observed.ts'
import type { VolumeFacts } from '../member/storage/persistent-volume.ts'
import type { ObservedServices } from '../service/observed.ts'

/** Whether the installation's keys are there: nothing is done without them, and they are never made anew. */
type KeysFacts = {
  sealingKey: boolean
  authority: boolean
  /** One authority is taking the place of another: it waits for every server. */
  isChanging: boolean
}

/** What the owner has in the cluster, with the facts of its volumes. */
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
    /** All children of services, for those who write them. */
    serviceChildren: readonly AnyObject[]
  }

/** The members of an owner, the one that serves first: today that one alone. */
export const membersOf = (observed: Observed): readonly [ObservedMember, ...ObservedMember[]] => [observed]
