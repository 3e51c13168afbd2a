/** The branch-specific part of the controller that databases and branches share. */
import type { Cluster } from '../../cluster/index.ts'
import type { EventRecorder } from '../../controller/index.ts'
import { type Branch, branchPhase, isFailedCreation } from '../../crds/index.ts'
import { conditionOf, type Finding } from '../objects/conditions.ts'
import { fillInDatabaseId, lacksDatabaseId, withReplacedDatabase } from '../objects/named-database.ts'
import { type OwnerController, type OwnerControllerOptions, startOwnerController } from '../owner/controller.ts'
import type { Kind } from '../owner/kind.ts'
import { perform } from './act.ts'
import { isOwnAction, type OwnAction } from './actions.ts'
import { remainingBackups } from './deletion.ts'
import { createBranchMetrics } from './metrics.ts'
import { observe } from './observe.ts'
import type { Observed } from './observed.ts'
import { nextConditions } from './plan/conditions.ts'
import { plan } from './plan/index.ts'
import type { PlanSettings } from './plan/plan.ts'
import { follow } from './watches.ts'

type BranchControllerOptions = OwnerControllerOptions & { settings: PlanSettings }

export const startBranchController = (options: BranchControllerOptions): OwnerController =>
  startOwnerController(options, branches(options))

function branches({ caches, settings, events, metrics }: BranchControllerOptions): Kind<'Branch', Observed, OwnAction> {
  const branchMetrics = createBranchMetrics(metrics, () => caches.branches.list())
  return {
    kind: 'Branch',
    name: 'branch',
    taskSubject: 'branch',
    objects: caches.branches,
    nextConditions,
    prepare: awaitDatabase,
    observe,
    plan: (observed, now) => plan(observed, now, settings),
    isOwnAction,
    perform,
    remainingBackups,
    // The operator cannot observe Postgres in a namespace that it does not manage. So the phase does not change, and
    // Ready reports that the operator does not manage the namespace.
    phaseNotServed: ({ phase = 'creating' }) => phase,
    complete: (branch, status, now) => {
      const { metadata, spec } = branch
      const database = caches.databases.get({ namespace: metadata.namespace, name: spec.databaseName })
      return withReplacedDatabase(status, branch, database, now)
    },
    report: (before, after, now) => {
      recordChange(events, before, after)
      const outcome = outcomeOf(before, after)
      if (outcome !== undefined) branchMetrics.ended(before, outcome, now)
    },
    follow: enqueues => follow(caches, enqueues),
    stop: () => branchMetrics.stop(),
  }
}

/**
 * Sets `spec.databaseId` of a new branch that has only `spec.databaseName`. Returns a finding if the branch must wait
 * for it.
 */
async function awaitDatabase(cluster: Cluster, branch: Branch): Promise<'ready' | 'replaced' | Finding> {
  if (branchPhase(branch) !== 'creating' || !lacksDatabaseId(branch)) return 'ready'
  const found = await fillInDatabaseId(cluster, branch)
  return found === 'filled' ? 'replaced' : found
}

const becomesConnectable = (before: Branch, after: Branch): boolean =>
  after.status?.connectableAt !== undefined && before.status?.connectableAt === undefined

const fails = (before: Branch, after: Branch): boolean =>
  after.status?.phase === 'failed' && before.status?.phase !== 'failed'

function recordChange(events: EventRecorder, before: Branch, after: Branch): void {
  if (becomesConnectable(before, after))
    events.record(before, 'Normal', 'BranchConnectable', 'the branch is connectable')
  if (!fails(before, after)) return
  const { reason = 'Failed', message = '' } = conditionOf(after.status, 'Ready') ?? {}
  events.record(before, 'Warning', reason, message)
}

/** The outcome of the branch's creation; undefined if this change does not end the creation. */
function outcomeOf(before: Branch, after: Branch): 'available' | 'failed' | undefined {
  if (becomesConnectable(before, after)) return 'available'
  return fails(before, after) && isFailedCreation(after) ? 'failed' : undefined
}
