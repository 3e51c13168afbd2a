/**
 * The Postgres on the restored volume, beside the serving one: a second member of the database, with the next
 * incarnation. Only its member is planned here. The database's own controller plans the endpoint, and accepts clients
 * after the switch.
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

/** `awaited`: Postgres runs, and is to be probed soon. */
export type CandidateSeen = { candidate: Candidate; member: ObservedMember; plan: MemberPlan; awaited: boolean }

/** `source`: undefined if it no longer exists and is no longer needed. */
const instanceOf = (database: ManagedDatabase, incarnation: number, source: DataSource | undefined): Instance => ({
  kind: 'ManagedDatabase',
  metadata: database.metadata,
  spec: { ...database.spec, suspended: false },
  status: { incarnation, domain: database.status?.domain, endpoint: database.status?.endpoint },
  dataSource: source,
})

export async function seeCandidate(
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
): Promise<CandidateSeen> {
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

type State = { state: 'making'; message: string } | Extract<Candidate, { state: 'ready' | 'failed' }>

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
        message: 'the image of Postgres is of a release that cannot lock copies',
      }
    const { volumeName } = claim.spec ?? {}
    const volume = { claim: claim.metadata.name, uid: claim.metadata.uid, systemIdentifier: answered.systemIdentifier }
    return { ...none, state: 'ready', volume: volumeName === undefined ? volume : { ...volume, volumeName } }
  }
  return {
    state: 'making',
    message: awaitedBy(observed, desired),
  }
}

/** What the candidate waits for. */
function awaitedBy(observed: ObservedMember, desired: MemberPlan['desired']): string {
  const { instance, region, node } = observed
  const unknown = unknownReference({ name: instance.spec.region, region, size: desired.size })
  const step = unknown ?? lostNode(node) ?? memberStep(observed, desired)
  const { pod } = observed
  const isPrepared = pod !== undefined && pod.address === undefined && !pod.terminating && pod.problem === undefined
  if (instance.dataSource?.kind === 'archive' && isPrepared)
    return 'the base backup is being extracted, and WAL replayed'
  return step?.message ?? 'Postgres is starting on the restored volume'
}
