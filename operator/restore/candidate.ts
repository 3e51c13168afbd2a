/**
 * The candidate: the Postgres on the restored volume. It runs next to the serving Postgres, with the next volume number
 * (incarnation). Only its StatefulSet, pod and volume are planned here. The database controller plans the endpoint, and
 * accepts clients after the switch.
 */

import { firstMember, type ManagedDatabase } from '../../crds/index.ts'
import { ownedObjects } from '../children/owned.ts'
import { observePrerequisites } from '../endpoint/observe.ts'
import { prerequisitesOf } from '../endpoint/plan/index.ts'
import type { InstallationKeys } from '../keys.ts'
import { type Observer, observeMember, type PriorMemberFacts } from '../member/observe.ts'
import type { ObservedMember } from '../member/observed.ts'
import { type MemberPlan, planMember } from '../member/plan/index.ts'
import { memberStep } from '../member/plan/step.ts'
import { lostNode } from '../member/pod/node.ts'
import { noRestarts } from '../member/pod/plan/restart-annotations.ts'
import { unknownReference } from '../member/pod/plan/unknown-reference.ts'
import { isOwn } from '../member/postgres/answer.ts'
import type { DataSource, Instance } from '../objects/instance.ts'
import { ownerOf } from '../objects/ownership.ts'
import type { Candidate } from './observed.ts'

/** `awaited`: the pod runs, so Postgres is probed soon. */
export type ObservedCandidate = { candidate: Candidate; member: ObservedMember; plan: MemberPlan; awaited: boolean }

const instanceOf = (database: ManagedDatabase, incarnation: number, source: DataSource): Instance => ({
  kind: 'ManagedDatabase',
  metadata: database.metadata,
  spec: { ...database.spec, suspended: false },
  status: { incarnation, domain: database.status?.domain, endpoint: database.status?.endpoint },
  dataSource: source,
})

export async function observeCandidate(
  observer: Observer,
  {
    database,
    id,
    incarnation,
    source,
  }: { database: ManagedDatabase; id: string; incarnation: number; source: DataSource },
  keys: InstallationKeys,
  prior: PriorMemberFacts,
  now: number,
): Promise<ObservedCandidate> {
  const { namespace = '' } = database.metadata
  const instance = instanceOf(database, incarnation, source)
  const owner = ownerOf(instance, id)
  const objects = ownedObjects(observer.caches, namespace, owner)
  const { observed: member } = await observeMember(
    observer,
    { instance, number: firstMember, owner, isAtRest: false, anotherServes: true, keys, objects },
    prior,
  )
  const { observed: endpoint } = observePrerequisites({ member, objects, keys }, observer.now)
  const plan = planMember(member, owner, now, {
    ...prerequisitesOf(endpoint),
    restartsOf: noRestarts,
    role: 'primary',
    protectsVolume: false,
  })
  return {
    candidate: { ...stateOf(member, plan), actions: plan.actions, isBound: isBound(member) },
    member,
    plan,
    awaited: member.pod?.address !== undefined && !member.pod.terminating,
  }
}

const isBound = ({ children }: ObservedMember): boolean => children.claim?.status?.phase === 'Bound'

type State = { state: 'creating'; message: string } | Extract<Candidate, { state: 'ready' | 'failed' }>

function stateOf(
  observed: ObservedMember,
  { answered, fatal, desired }: MemberPlan,
): Omit<State, 'actions' | 'isBound'> & State {
  const none = { actions: [], isBound: false }
  const { claim } = observed.children
  if (fatal) return { ...none, state: 'failed', reason: fatal.reason, message: `the restored volume: ${fatal.message}` }
  if (answered !== undefined && isOwn(answered) && claim?.metadata.uid !== undefined) {
    if (answered.closed === undefined)
      return {
        ...none,
        state: 'failed',
        reason: 'NotClosed',
        message: 'the Postgres image is too old: it cannot lock a copy against clients',
      }
    const { volumeName } = claim.spec ?? {}
    const volume = { claim: claim.metadata.name, uid: claim.metadata.uid, systemIdentifier: answered.systemIdentifier }
    return { ...none, state: 'ready', volume: volumeName === undefined ? volume : { ...volume, volumeName } }
  }
  return {
    state: 'creating',
    message: waitMessage(observed, desired),
  }
}

/** What the candidate waits for. */
function waitMessage(observed: ObservedMember, desired: MemberPlan['desired']): string {
  const { instance, region, node } = observed
  const unknown = unknownReference({ name: instance.spec.region, region, size: desired.size })
  const step = unknown ?? lostNode(node) ?? memberStep(observed, desired)
  const { pod } = observed
  const isPrepared = pod !== undefined && pod.address === undefined && !pod.terminating && pod.problem === undefined
  if (instance.dataSource?.kind === 'archive' && isPrepared)
    return 'the base backup is being extracted, and WAL is being replayed'
  return step?.message ?? 'Postgres is starting on the restored volume'
}
