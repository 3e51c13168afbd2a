/**
 * All that a pass knows of one owner's Postgres: its member, its endpoint, and what composes the two. Gathered from the caches by
 * observe.ts; no secret is among it.
 */
import type { AnyObject, KindName, Kinds, Pod } from '../../cluster/index.ts'
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
 * The kinds of an owner's children, and at which stage of a deletion each is deleted; pods are those of another kind. A new
 * kind, such as the Deployment of a service, is a line here, one in caches/children.ts, and the field that remainsOf() lacks
 * then; its rights are in the chart's operator-rbac.yaml.
 */
export const childKinds = [
  { kind: 'PersistentVolumeClaim', field: 'claims', stage: 'volume' },
  { kind: 'Secret', field: 'secrets', stage: 'rest' },
  { kind: 'StatefulSet', field: 'statefulSets', stage: 'workload' },
  { kind: 'Service', field: 'services', stage: 'workload' },
  { kind: 'NetworkPolicy', field: 'networkPolicies', stage: 'rest' },
  { kind: 'PodDisruptionBudget', field: 'disruptionBudgets', stage: 'rest' },
  { kind: 'ConfigMap', field: 'configurations', stage: 'workload' },
  { kind: 'ConfigMap', field: 'routes', stage: 'rest' },
] as const satisfies { kind: KindName; field: string; stage: 'workload' | 'volume' | 'rest' }[]
type ChildKind = (typeof childKinds)[number]

/**
 * Everything of ours that is still there, of any incarnation: what deletion has to take away. With it what has our id
 * and belongs to no database that lives: the database it belonged to was put back, as this one.
 */
export type Remains = { [C in ChildKind as C['field']]: Kinds[C['kind']][] } & { pods: Pod[]; volumes: VolumeFacts[] }

/** What of the remains is deleted at a stage, kind by kind. */
export const remainsAt = (
  remains: Remains,
  stage: ChildKind['stage'],
): { kind: KindName; objects: readonly AnyObject[] }[] =>
  childKinds
    .filter(child => child.stage === stage)
    .map(({ kind, field }) => ({ kind, objects: remains[field] as readonly AnyObject[] }))

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
