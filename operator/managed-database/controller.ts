/**
 * The controller of ManagedDatabases: each pass observes one database, plans, does what the plan names and writes the
 * status once, if it changed. It holds nothing that the next pass, or another process, could not find out again.
 */
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, lowPriority, startController } from '../../controller/index.ts'
import { canonicalJson, labels, type ManagedDatabase } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { notServedMessage } from '../access/bindings.ts'
import { whereServed } from '../access/where-served.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { no } from '../objects/conditions.ts'
import { ownerKeyOf, ownerKindOf, ownerUidOf } from '../objects/ownership.ts'
import { withUpdatedAt } from '../objects/updated-at.ts'
import { execute, worst } from '../owner/execute.ts'
import { createWorkloads } from '../workload/workloads.ts'
import { nextConditions } from './conditions.ts'
import { follow } from './follow.ts'
import { createDatabaseMetrics } from './metrics.ts'
import { observe } from './observe.ts'
import { isKeptRoute, orphanedReport } from './orphan.ts'
import { perform } from './perform.ts'
import { type PlanSettings, plan } from './plan/index.ts'
import { endedOperation, reportsOf, withProblems } from './report.ts'
import { withSeenSpec } from './seen-spec.ts'

type DatabaseControllerOptions = PostgresControllerOptions & {
  settings: PlanSettings
  /** How many have their certificates issued anew at a time. */
  certificatesAtOnce: number
}

/** While no port is free, it is looked again even if none is given up: one may be avoided no longer. */
const portMs = 30_000

export function startDatabaseController(options: DatabaseControllerOptions): {
  stop(): Promise<void>
  suspect(key: string): void
} {
  const { caches, keys, images, pods, settings, events, metrics, logger, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  const databaseMetrics = createDatabaseMetrics(metrics, () => caches.databases.list())
  /** Databases that wait for the gateways. */
  const awaitingGateways = new Set<string>()
  /** Databases whose region has no port left. */
  const awaitingPort = new Set<string>()
  let controller: Controller | undefined
  const enqueue = (key: string) => controller?.enqueue(key)
  const workloads = createWorkloads({ ...options, cluster, enqueue })
  const executor = { ...workloads.executor, newId: createIds(now) }
  const observer = { caches, cluster, images, pods, now, clock: options.clock }

  const reconcile = async (key: string, passSignal: AbortSignal) => {
    const database = caches.databases.get(parseKey(key))
    if (database === undefined) return forget(key)
    const currentKeys = keys()
    const seen = await observe(observer, database, currentKeys, workloads.learnt(key))
    const observed = workloads.inTurn(key, seen.observed)
    const decided = plan(observed, now(), settings)
    if (decided.awaitsGateways) awaitingGateways.add(key)
    else awaitingGateways.delete(key)
    const pass = workloads.pass(key, { ...seen, observed }, currentKeys, passSignal)
    const { problems, errors, awaitsPort, growthRefused, released } = await execute(decided.actions, action =>
      perform(executor, pass, database, action),
    )
    if (decided.actions.some(action => action.do === 'orphan')) events.record(database, ...orphanedReport(database))
    if (released) return forget(key)
    if (awaitsPort && !awaitingPort.has(key))
      logger.warn({ key, problems }, 'no port is free; the database waits for one')
    if (awaitsPort) awaitingPort.add(key)
    else awaitingPort.delete(key)
    await report(database, withProblems(decided.status, problems, now()))
    // What could not be written keeps nobody from looking at Postgres.
    const wakeMs = workloads.wakeAfter(pass, decided)
    if (errors.length > 0) throw worst(errors)
    // What was refused is told at once, by the next pass.
    if (growthRefused) return { requeueAfterMs: 0 }
    return { requeueAfterMs: awaitsPort ? Math.min(portMs, wakeMs ?? portMs) : wakeMs }
  }

  /** Deletes what is known of a database that is gone, and its routes. Those of an orphaned database stay as long as its volume. */
  const forget = async (key: string): Promise<undefined> => {
    workloads.forget(key)
    awaitingGateways.delete(key)
    awaitingPort.delete(key)
    for (const route of caches.configMaps.byIndex('ownerKey', key)) {
      // A branch may have this name, too.
      if (ownerKindOf(route) !== 'ManagedDatabase') continue
      const { namespace, name, uid } = route.metadata
      const id = route.metadata.labels?.[labels.database] ?? ''
      const hasData = caches.claims.byIndex('database', id).some(claim => ownerKeyOf(claim) === key)
      if (hasData && isKeptRoute(route)) continue
      const { namespace: home, name: database } = parseKey(key)
      const live = await cluster.get('ManagedDatabase', { namespace: home, name: database })
      const isHeld = live?.metadata.labels?.[labels.id] === id
      if (live !== undefined && (isHeld || live.metadata.uid === ownerUidOf(route))) return undefined
      await cluster.delete('ConfigMap', { namespace, name }, { uid })
    }
    return undefined
  }

  const report = async (database: ManagedDatabase, planned: ManagedDatabase['status'] & object) => {
    const status = withSeenSpec(database, withUpdatedAt(database.status, planned, now()), now())
    if (canonicalJson(status) === canonicalJson(database.status ?? {})) return
    await cluster.replaceStatus('ManagedDatabase', { ...database, status })
    for (const { type, reason, message } of reportsOf(database.status, status))
      events.record(database, type, reason, message)
    const ended = endedOperation(database.status, status, now())
    if (ended) databaseMetrics.ended(ended)
  }

  const reportNotServed = (database: ManagedDatabase): Promise<void> => {
    const { metadata, status = {} } = database
    const Ready = no('NamespaceNotServed', notServedMessage(metadata.namespace ?? ''))
    const conditions = nextConditions(status.conditions ?? [], { Ready }, metadata.generation, now())
    return report(database, { phase: 'creating', ...status, conditions })
  }

  controller = startController({
    name: 'managed-database',
    workers: options.workers,
    reconcile: whereServed(caches, caches.databases, reconcile, reportNotServed),
    keys: () => caches.databases.list().map(keyOf),
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
    ...follow(
      caches,
      { enqueue, later, suspect, reported: workloads.reported },
      { awaitingGateways, awaitingPort },
      keys,
    ),
    options.clock.onChange(() => {
      for (const database of caches.databases.list()) later(keyOf(database))
    }),
  ]

  return {
    suspect,
    stop: async () => {
      for (const end of unfollow) end()
      await controller?.stop()
      await workloads.stop()
      databaseMetrics.stop()
    },
  }
}
