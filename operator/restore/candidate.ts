/**
 * The Postgres on the restored volume, beside the one that serves: an instance of the database as any other, of the next
 * incarnation. Only what belongs to that incarnation is done for it; the database's Service, route, certificate and
 * credentials are left to the database's own controller, and so is its opening.
 */
import { childNames, type ManagedDatabase } from '../../crds/index.ts'
import type { InstallationKeys } from '../keys.ts'
import { noRestarts } from '../member/pod/plan/restart-marks.ts'
import { podsOf } from '../member/pod/pod.ts'
import { isOwn } from '../member/postgres/plan/health.ts'
import { ownerOf } from '../objects/ownership.ts'
import type { Action as InstanceAction } from '../workload/actions.ts'
import type { DataSource, Instance } from '../workload/instance.ts'
import { type Learnt, type Observation, type Observer, observeInstance, remainsOf } from '../workload/observe.ts'
import { type Assessment, assess } from '../workload/plan/assessment.ts'
import { awaitsPostgres, nextActions } from '../workload/plan/next-actions.ts'
import type { Candidate } from './observed.ts'

export type CandidateSeen = { candidate: Candidate; observation: Observation; assessment: Assessment; awaited: boolean }

/** `source`: undefined where it is not to be had any more, and matters no more. */
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
  learnt: Learnt,
  now: number,
): Promise<CandidateSeen> {
  const { namespace = '' } = database.metadata
  const instance = instanceOf(database, incarnation, source)
  const owner = ownerOf(instance, id)
  const { caches } = observer
  const remains = { ...remainsOf(caches, namespace, owner), pods: podsOf(caches, id, namespace) }
  const observation = await observeInstance(
    observer,
    { instance, owner, isAtRest: false, isBeside: true, remains },
    keys,
    learnt,
  )
  const assessment = assess(observation.observed, owner, now, noRestarts)
  const names = new Set<string>([
    childNames.claim(id, incarnation),
    childNames.configuration(id, incarnation),
    childNames.statefulSet(id, incarnation),
    childNames.pod(id, incarnation),
  ])
  const actions = nextActions(observation.observed, owner, assessment).filter(action => concerns(action, names))
  return {
    candidate: { ...stateOf(observation, assessment), actions, isBound: isBound(observation) },
    observation,
    assessment,
    awaited: awaitsPostgres(observation.observed, assessment),
  }
}

const isBound = ({ observed: { children } }: Observation): boolean => children.claim?.status?.phase === 'Bound'

/** Whether an action is one on what is the incarnation's alone. */
function concerns(action: InstanceAction, names: ReadonlySet<string>): boolean {
  switch (action.do) {
    case 'create-claim':
      return names.has(action.draft.metadata.name)
    case 'update-claim':
    case 'grow-claim':
      return names.has(action.claim.metadata.name)
    case 'apply':
      return names.has(action.draft.metadata.name)
    case 'delete':
    case 'repair-pod':
      return names.has(action.name)
    default:
      return action.do === 'detach'
  }
}

type State = { state: 'making'; message: string } | Extract<Candidate, { state: 'ready' | 'failed' }>

function stateOf(
  { observed }: Observation,
  { answered, fatal, pending }: Assessment,
): Omit<State, 'actions' | 'isBound'> & State {
  const none = { actions: [], isBound: false }
  const { claim } = observed.children
  if (fatal)
    return { ...none, state: 'failed', reason: fatal.reason, message: `of the restored volume: ${fatal.message}` }
  if (answered !== undefined && isOwn(answered) && claim?.metadata.uid !== undefined) {
    if (answered.closed === undefined)
      return {
        ...none,
        state: 'failed',
        reason: 'NotClosed',
        message: 'the image of Postgres is of a release that closes no copies',
      }
    const { volumeName } = claim.spec ?? {}
    const volume = { claim: claim.metadata.name, uid: claim.metadata.uid, systemIdentifier: answered.systemIdentifier }
    return { ...none, state: 'ready', volume: volumeName === undefined ? volume : { ...volume, volumeName } }
  }
  return { state: 'making', message: pending?.message ?? 'Postgres starts on the restored volume' }
}
