/**
 * All that a pass knows of one owner's Postgres: its member, its endpoint, and what composes the two. Gathered from the caches by
 * observe.ts; no secret is among it.
 */
import type {
  ConfigMap,
  KindName,
  NetworkPolicy,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  Secret,
  Service,
  StatefulSet,
} from '../../cluster/index.ts'
import type { EndpointChildren, ObservedEndpoint } from '../endpoint/observed.ts'
import type { MemberChildren, ObservedMember } from '../member/observed.ts'
import type { VolumeFacts } from '../member/storage/persistent-volume.ts'

/** Whether the installation's keys are there: nothing is done without them, and they are never made anew. */
type KeysFacts = {
  sealingKey: boolean
  authority: boolean
  /** One authority is taking the place of another: it waits for every server. */
  isChanging: boolean
}

/**
 * Everything of ours that is still there, of any incarnation: what deletion has to take away. With it what has our id
 * and belongs to no database that lives: the database it belonged to was put back, as this one.
 */
export type Remains = {
  statefulSets: StatefulSet[]
  pods: Pod[]
  services: Service[]
  networkPolicies: NetworkPolicy[]
  disruptionBudgets: PodDisruptionBudget[]
  configurations: ConfigMap[]
  claims: PersistentVolumeClaim[]
  secrets: Secret[]
  routes: ConfigMap[]
  volumes: VolumeFacts[]
}

/** The kinds of what remains, but pods, which are their StatefulSet's. */
export const kindsOfRemains = [
  { kind: 'PersistentVolumeClaim', field: 'claims' },
  { kind: 'Secret', field: 'secrets' },
  { kind: 'StatefulSet', field: 'statefulSets' },
  { kind: 'Service', field: 'services' },
  { kind: 'NetworkPolicy', field: 'networkPolicies' },
  { kind: 'PodDisruptionBudget', field: 'disruptionBudgets' },
  { kind: 'ConfigMap', field: 'configurations' },
  { kind: 'ConfigMap', field: 'routes' },
] as const satisfies { kind: KindName; field: keyof Remains }[]

type Children = MemberChildren & EndpointChildren

export type Observed = ObservedMember &
  ObservedEndpoint & {
    keys: KeysFacts
    children: Children
    remains: Remains
    /** Gateways cannot connect to a Postgres that the operator reaches. */
    isCutOff: boolean
  }

/** The members of an owner, the one that serves first: today that one alone. */
export const membersOf = (observed: Observed): readonly [ObservedMember, ...ObservedMember[]] => [observed]
