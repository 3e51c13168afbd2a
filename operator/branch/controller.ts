/**
 * The controller of Branches: each pass observes one branch, plans, does what the plan names and writes the status once, if
 * it changed. It holds nothing that the next pass, or another process, could not find out again.
 */
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, lowPriority, startController } from '../../controller/index.ts'
import { type Branch, branchPhase, canonicalJson, isUnmadeBranch } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { notServedMessage } from '../access/bindings.ts'
import { whereServed } from '../access/where-served.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { conditionOf, no } from '../objects/conditions.ts'
import { fillInDatabaseId, lacksDatabaseId, onOtherDatabase, withReplacedDatabase } from '../objects/named-database.ts'
import { withUpdatedAt } from '../objects/updated-at.ts'
import { execute, worst } from '../owner/execute.ts'
import { withProblems } from '../owner/problems.ts'
import { createWorkloads } from '../workload/workloads.ts'
import { follow } from './follow.ts'
import { createBranchMetrics } from './metrics.ts'
import { observe } from './observe.ts'
import type { BranchStatus } from './observed.ts'
import { perform } from './perform.ts'
import { nextConditions } from './plan/conditions.ts'
import { plan } from './plan/index.ts'
import type { PlanSettings } from './plan/plan.ts'

type BranchControllerOptions = PostgresControllerOptions & {
  settings: PlanSettings
  /** How many have their certificates issued anew at a time. */
  certificatesAtOnce: number
}

/** While no port is free, it is looked again even if none is given up: one may be avoided no longer. */
const portMs = 30_000
/** The longest that nothing is looked at again. */
const longestMs = 24 * 3600_000

export function startBranchController(options: BranchControllerOptions): {
  stop(): Promise<void>
  suspect(key: string): void
} {
  const { caches, keys, images, pods, settings, events, metrics, logger, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  const branchMetrics = createBranchMetrics(metrics, () => caches.branches.list())
  const waiting = { awaitingGateways: new Set<string>(), awaitingPort: new Set<string>() }
  let controller: Controller | undefined
  const enqueue = (key: string) => controller?.enqueue(key)
  const workloads = createWorkloads({ ...options, cluster, enqueue })
  const executor = { ...workloads.executor, newId: createIds(now) }
  const observer = { caches, cluster, images, pods, now, clock: options.clock }

  const reconcile = async (key: string, passSignal: AbortSignal) => {
    const branch = caches.branches.get(parseKey(key))
    if (branch === undefined) return forget(key)
    if (branchPhase(branch) === 'creating' && lacksDatabaseId(branch)) return awaitDatabase(branch)
    const currentKeys = keys()
    const seen = await observe(observer, branch, currentKeys, workloads.learnt(key))
    const observed = workloads.inTurn(key, seen.observed)
    const decided = plan(observed, now(), settings)
    note(waiting.awaitingGateways, key, decided.awaitsGateways)
    const pass = workloads.pass(key, { ...seen, observed }, currentKeys, passSignal)
    const { problems, errors, awaitsPort, released } = await execute(decided.actions, action =>
      perform(executor, pass, action),
    )
    if (released) return undefined
    note(waiting.awaitingPort, key, awaitsPort)
    const conditions = withProblems(decided.status.conditions ?? [], problems, (before, findings) =>
      nextConditions(before, findings, decided.status.observedGeneration, now()),
    )
    const database = caches.databases.get({ namespace: branch.metadata.namespace, name: branch.spec.databaseName })
    await report(branch, withReplacedDatabase({ ...decided.status, conditions }, branch, database, now()))
    const wakeMs = workloads.wakeAfter(pass, decided)
    if (errors.length > 0) throw worst(errors)
    return { requeueAfterMs: Math.min(awaitsPort ? portMs : longestMs, wakeMs ?? longestMs) }
  }

  const awaitDatabase = async (branch: Branch): Promise<undefined> => {
    const found = await fillInDatabaseId(cluster, branch)
    if (found === 'filled') return
    const { metadata, status = {} } = branch
    const findings = { Ready: found, Progressing: found }
    const conditions = nextConditions(status.conditions ?? [], findings, metadata.generation, now())
    await report(branch, { ...status, phase: 'creating', conditions })
  }

  const note = (set: Set<string>, key: string, isIn: boolean) => (isIn ? set.add(key) : set.delete(key))

  const forget = (key: string): undefined => {
    workloads.forget(key)
    for (const set of Object.values(waiting)) set.delete(key)
  }

  const report = async (branch: Branch, planned: BranchStatus) => {
    const status = withUpdatedAt(branch.status, planned, now())
    if (canonicalJson(status) === canonicalJson(branch.status ?? {})) return
    const written = await cluster.replaceStatus('Branch', { ...branch, status })
    const before = branch.status
    const message = conditionOf(status, 'Ready')?.message ?? ''
    if (status.connectableAt !== undefined && before?.connectableAt === undefined) {
      events.record(branch, 'Normal', 'BranchConnectable', 'the branch is connectable')
      branchMetrics.ended(branch, 'available', now())
    }
    if (status.phase !== 'failed' || before?.phase === 'failed') return
    events.record(branch, 'Warning', conditionOf(status, 'Ready')?.reason ?? 'Failed', message)
    if (isUnmadeBranch(written)) branchMetrics.ended(branch, 'failed', now())
  }

  const reportNotServed = (branch: Branch): Promise<void> => {
    const { metadata, status = {} } = branch
    const Ready = no('NamespaceNotServed', notServedMessage(metadata.namespace ?? ''))
    const conditions = nextConditions(status.conditions ?? [], { Ready }, metadata.generation, now())
    return report(branch, { phase: 'creating', ...status, conditions })
  }

  controller = startController({
    name: 'branch',
    workers: options.workers,
    reconcile: whereServed(caches, caches.branches, reconcile, reportNotServed),
    keys: () => caches.branches.list().map(keyOf),
    signal,
    logger,
    metrics,
  })
  const suspect = (key: string) => {
    workloads.suspect(key)
    enqueue(key)
  }
  const later = (key: string) => controller?.enqueue(key, { priority: lowPriority })
  const unfollow = [
    ...follow(caches, { enqueue, later, suspect, reported: workloads.reported }, waiting, keys),
    onOtherDatabase(caches.databases, key => caches.branches.byIndex('database', key), enqueue),
    options.clock.onChange(() => {
      for (const branch of caches.branches.list()) later(keyOf(branch))
    }),
  ]

  return {
    suspect,
    stop: async () => {
      for (const end of unfollow) end()
      await controller?.stop()
      await workloads.stop()
      branchMetrics.stop()
    },
  }
}
