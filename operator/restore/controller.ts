/**
 * The controller of Restores: each pass observes one restore, plans, does what the plan names and writes the status once, if it
 * changed. A restore that the API asked for is an annotation of its database, written together with the operation; the
 * object that records it is made here.
 */
import type { Cluster, ObjectKey } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, startController } from '../../controller/index.ts'
import {
  apiVersion,
  askedRestore,
  canonicalJson,
  isOpenRestore,
  isRestoreAsked,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  type Restore,
} from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { whereServed } from '../access/where-served.ts'
import type { Caches } from '../caches.ts'
import type { PostgresControllerOptions } from '../controller-options.ts'
import { restoresOf } from '../managed-database/restoring.ts'
import { createIfAbsent } from '../objects/create.ts'
import { fillInDatabaseId, lacksDatabaseId, onOtherDatabase, withReplacedDatabase } from '../objects/named-database.ts'
import { withFindings } from '../objects/run-status.ts'
import { newTrouble, troubled, untroubled } from '../run/trouble.ts'
import type { GuardedObserver } from '../workload/observe.ts'
import { createWorkloads } from '../workload/workloads.ts'
import { observe } from './observe.ts'
import { perform } from './perform.ts'
import { plan, type RestoreDeadlines } from './plan.ts'
import { quotaMessage } from './quota.ts'
import { notYet } from './status.ts'

type RestoreControllerOptions = PostgresControllerOptions & {
  deadlines: RestoreDeadlines
}

/** Somebody waits for a restore: what failed is tried again within this time, as long as it fails. */
const longestRetryMs = 30_000

export function startRestoreController(options: RestoreControllerOptions): { stop(): Promise<void> } {
  const restores = new RestoreController(options)
  const unfollow = follow(options.caches, key => restores.enqueue(key))
  return {
    stop: async () => {
      for (const end of unfollow) end()
      await restores.stop()
    },
  }
}

class RestoreController {
  readonly #options: RestoreControllerOptions
  readonly #cluster: Cluster
  readonly #workloads: ReturnType<typeof createWorkloads>
  readonly #executor: Parameters<typeof perform>[0]
  readonly #observer: GuardedObserver
  readonly #controller: Controller

  constructor(options: RestoreControllerOptions) {
    const { caches, images, pods, clock, metrics, logger, now, signal } = options
    this.#options = options
    const cluster = caches.writeThrough(options.cluster)
    this.#cluster = cluster
    const enqueue = (key: string) => this.enqueue(key)
    this.#workloads = createWorkloads({ ...options, cluster, certificatesAtOnce: 1, enqueue })
    this.#executor = { cluster, candidate: this.#workloads.executor, newId: createIds(now) }
    this.#observer = { caches, cluster, images, pods, now, clock }
    this.#controller = startController({
      name: 'restore',
      workers: options.workers,
      reconcile: whereServed(caches, caches.restores, (key, passSignal) => this.#reconcile(key, passSignal)),
      keys: () => [
        ...caches.restores.list().map(keyOf),
        ...caches.databases.list().flatMap(database => askedKey(database)),
      ],
      limits: { maximumMs: longestRetryMs },
      signal,
      logger,
      metrics,
    })
  }

  enqueue(key: string): void {
    this.#controller.enqueue(key)
  }

  async stop(): Promise<void> {
    await this.#controller.stop()
    await this.#workloads.stop()
  }

  async #reconcile(key: string, passSignal: AbortSignal) {
    const cached = this.#options.caches.restores.get(parseKey(key))
    const restore = cached && isOpenRestore(cached) ? await this.#cluster.get('Restore', cached.metadata) : cached
    if (restore === undefined) {
      this.#workloads.forget(key)
      return recordAsked(this.#options.caches, this.#cluster, parseKey(key))
    }
    if (isOpenRestore(restore) && lacksDatabaseId(restore)) return this.#awaitDatabase(restore)
    try {
      return await this.#pass(key, restore, passSignal)
    } catch (error) {
      await this.#reportTrouble(restore, error)
      throw error
    }
  }

  async #pass(key: string, restore: Restore, passSignal: AbortSignal) {
    const currentKeys = this.#options.keys()
    if (currentKeys.sealingKey === undefined || currentKeys.authority === undefined) return undefined
    const request = { restore, keys: currentKeys, learnt: this.#workloads.learnt(key), now: this.#options.now() }
    const { observed, candidate } = await observe(this.#observer, request)
    if (candidate === undefined) this.#workloads.forget(key)
    const { actions, status, wakeAt } = plan(observed, this.#options.now(), this.#options.deadlines)
    const instance = candidate && this.#workloads.memberPass(key, candidate.member, currentKeys, passSignal)
    for (const action of actions) {
      await perform(this.#executor, observed, instance, action)
      // The object is another one by then; the next pass sees it.
      if (action.do === 'identify' || action.do === 'release' || action.do === 'forget') return undefined
    }
    const database = this.#options.caches.databases.get({
      namespace: restore.metadata.namespace,
      name: restore.spec.databaseName,
    })
    await this.#report(restore, untroubled(withReplacedDatabase(status, restore, database, this.#options.now())))
    const probeMs =
      instance &&
      candidate &&
      this.#workloads.wakeAfter(instance, {
        awaitsPostgres: candidate.awaited,
        awaitsGateways: false,
        configurationDigest: candidate.plan.desired.configurationDigest,
        wakeAt: undefined,
      })
    const known = [probeMs, wakeAt === undefined ? undefined : Math.max(0, wakeAt - this.#options.now())].filter(
      ms => ms !== undefined,
    )
    return known.length === 0 ? undefined : { requeueAfterMs: Math.min(...known) }
  }

  async #awaitDatabase(restore: Restore): Promise<undefined> {
    const found = await fillInDatabaseId(this.#cluster, restore)
    if (found === 'filled') return
    const status = { ...restore.status, phase: 'pending' as const }
    await this.#report(
      restore,
      withFindings(restore, status, { Ready: found, Progressing: found }, this.#options.now()),
    )
  }

  async #report(restore: Restore, status: NonNullable<Restore['status']>) {
    if (canonicalJson(status) === canonicalJson(restore.status ?? {})) return
    await this.#cluster.replaceStatus('Restore', { ...restore, status })
    if (status.phase === restore.status?.phase) return
    if (status.phase === 'completed')
      this.#options.events.record(restore, 'Normal', 'RestoreCompleted', 'the data are restored')
    if (status.phase === 'failed')
      this.#options.events.record(
        restore,
        'Warning',
        status.conditions?.[0]?.reason ?? 'RestoreFailed',
        status.error ?? '',
      )
    this.#options.logger.info(
      { restore: keyOf(restore), phase: status.phase, error: status.error },
      'a restore goes on',
    )
  }

  /** A pass that failed is reported where somebody waits for it; whatever came first is the error that counts. */
  async #reportTrouble(restore: Restore, error: unknown) {
    const database = this.#options.caches.databases.get({
      namespace: restore.metadata.namespace,
      name: restore.spec.databaseName,
    })
    const words = { notYet, quota: (message: string) => quotaMessage(message, database) }
    const { metadata, status: before = {} } = restore
    const status = troubled({ metadata, status: before }, error, words, this.#options.now())
    if (status === undefined || canonicalJson(status) === canonicalJson(before)) return
    try {
      await this.#cluster.replaceStatus('Restore', { ...restore, status })
      const found = newTrouble(before, status)
      if (found !== undefined) this.#options.events.record(restore, 'Warning', found.reason, found.message)
    } catch (failure) {
      this.#options.logger.warn(
        { restore: keyOf(restore), err: failure },
        'what holds a restore up could not be written',
      )
    }
  }
}

/** Creates the Restore that a database asks for, if it does not exist. */
async function recordAsked(caches: Caches, cluster: Cluster, { namespace = '', name }: ObjectKey): Promise<undefined> {
  const [database] = caches.databases.byIndex('restore', `${namespace}/${name}`)
  const asked = database && askedRestore(database)
  const databaseId = database?.metadata.labels?.[labels.id]
  if (database === undefined || asked === undefined || databaseId === undefined || !isRestoreAsked(database)) return
  const tenant = database.metadata.labels?.[labels.tenant]
  await createIfAbsent(cluster, 'Restore', {
    apiVersion,
    kind: 'Restore',
    metadata: {
      name,
      namespace,
      labels: {
        [labels.managedBy]: managedByEspalier,
        ...(asked.id === undefined ? {} : { [labels.id]: asked.id }),
        ...(tenant === undefined ? {} : { [labels.tenant]: tenant }),
      },
    },
    spec: {
      databaseName: database.metadata.name,
      databaseId,
      target: { backupName: asked.backupName },
      ...(asked.discardPrevious ? { discardPrevious: true } : {}),
    },
  })
}

/** Enqueues the restores that a change may concern. @returns what ends it */
function follow(caches: Caches, enqueue: (key: string) => void): (() => void)[] {
  const ofDatabase = (database: ManagedDatabase) => {
    for (const restore of restoresOf(caches, database))
      if (isOpenRestore(restore) || database.metadata.deletionTimestamp || restore.metadata.deletionTimestamp)
        enqueue(keyOf(restore))
    for (const key of askedKey(database)) enqueue(key)
  }
  const ofChild = ({ object: { metadata } }: { object: Pick<ManagedDatabase, 'metadata'> }) => {
    for (const database of caches.databases.byIndex('id', metadata.labels?.[labels.database] ?? ''))
      if (isRestoreAsked(database)) ofDatabase(database)
  }
  return [
    onOtherDatabase(caches.databases, key => caches.restores.byIndex('databaseName', key), enqueue),
    caches.restores.onChange(({ object }) => {
      enqueue(keyOf(object))
      // What ends makes room for the next.
      for (const other of caches.restores.byIndex('database', `${object.metadata.namespace}/${object.spec.databaseId}`))
        if (isOpenRestore(other)) enqueue(keyOf(other))
    }),
    caches.databases.onChange(({ object, type }) => {
      ofDatabase(object)
      if (type === 'deleted') for (const restore of restoresOf(caches, object)) enqueue(keyOf(restore))
    }),
    caches.backups.onChange(({ object }) => {
      for (const database of caches.databases.byIndex('id', object.spec.databaseId))
        if (isRestoreAsked(database)) ofDatabase(database)
    }),
    caches.claims.onChange(ofChild),
    caches.pods.onChange(ofChild),
    caches.statefulSets.onChange(ofChild),
    caches.configMaps.onChange(ofChild),
  ]
}

/** The key of the restore that a database asks for. */
const askedKey = (database: ManagedDatabase): string[] => {
  const asked = isRestoreAsked(database) ? askedRestore(database) : undefined
  return asked === undefined ? [] : [`${database.metadata.namespace}/${asked.name}`]
}
