/** Starts the controller of ManagedDatabases. The code that it shares with branches is in owner/controller.ts. */
import type { ArchiveWatch } from '../archive/watch.ts'
import { ownBackups } from '../backup/observe.ts'
import { withScheduledBackup } from '../backup/schedule/recorded.ts'
import { type OwnerController, type OwnerControllerOptions, startOwnerController } from '../owner/controller.ts'
import type { Kind } from '../owner/kind.ts'
import { perform } from './act.ts'
import { isOwnAction, type OwnAction } from './actions.ts'
import { nextConditions, phaseNotServed } from './conditions.ts'
import { remainingBackups } from './deletion.ts'
import type { ImportSettings } from './import/act.ts'
import { createDatabaseMetrics } from './metrics.ts'
import { observe } from './observe.ts'
import type { Observed } from './observed.ts'
import { outlivesDatabase } from './plan/deletion-record.ts'
import { type PlanSettings, plan } from './plan/index.ts'
import { endedOperation, eventsOf } from './report.ts'
import { withSpecDigest } from './spec-digest.ts'
import { follow } from './watches.ts'

type DatabaseControllerOptions = OwnerControllerOptions & {
  settings: PlanSettings
  imports: ImportSettings
  archiveWatch: Pick<ArchiveWatch, 'finding' | 'position' | 'onChange'>
}

export const startDatabaseController = (options: DatabaseControllerOptions): OwnerController =>
  startOwnerController(options, databases(options))

function databases({
  caches,
  settings,
  archiveWatch,
  imports,
  images,
  pods,
  now,
  events,
  metrics,
}: DatabaseControllerOptions): Kind<'ManagedDatabase', Observed, OwnAction> {
  const importer = { images, pods, imports, now }
  const databaseMetrics = createDatabaseMetrics(metrics, () => caches.databases.list())
  return {
    kind: 'ManagedDatabase',
    name: 'managed-database',
    taskSubject: 'database',
    objects: caches.databases,
    nextConditions,
    prepare: async () => 'ready',
    observe: async (observer, database, keys, prior) => {
      const { observed, ...rest } = await observe(observer, database, keys, prior)
      const archive = { archiving: archiveWatch.finding(database), archived: archiveWatch.position(database) }
      return { observed: { ...observed, ...archive }, ...rest }
    },
    plan: (observed, now) => plan(observed, now, settings),
    isOwnAction,
    perform: (executor, pass, action) => perform({ ...executor, events, importer }, pass, action),
    remainingBackups,
    outlives: outlivesDatabase,
    phaseNotServed,
    complete: (database, status, now) =>
      withScheduledBackup(withSpecDigest(database, status, now), ownBackups(caches, database), now),
    report: (before, after, now) => {
      const { status = {} } = after
      for (const { type, reason, message } of eventsOf(before.status, status))
        events.record(before, type, reason, message)
      const ended = endedOperation(before.status, status, now)
      if (ended) databaseMetrics.ended(ended)
    },
    follow: enqueues => [...follow(caches, enqueues), archiveWatch.onChange(enqueues.enqueue)],
    stop: () => databaseMetrics.stop(),
  }
}
