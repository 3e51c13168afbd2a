/**
 * The controller of ManagedDatabases: each pass observes one database, plans, does what the plan names and writes the
 * status once, if it changed. It holds nothing that the next pass, or another process, could not find out again.
 */
import { type AnyObject, isClusterError } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, type EventRecorder, lowPriority, startController } from '../../controller/index.ts'
import { canonicalJson, labels, type ManagedDatabase, type PgVersion, systemNamespace } from '../../crds/index.ts'
import { newlyUnreachable, routeName } from '../../routes/route.ts'
import type { Caches } from '../caches.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { type InstallationKeys, isInstallationKey } from '../keys.ts'
import { ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'
import { postgresPort } from '../postgres/configuration.ts'
import type { PostgresAccess } from '../workload/access.ts'
import { serviceHost } from '../workload/children/addresses.ts'
import { createSizes } from '../workload/data-size.ts'
import { createGrowthBook } from '../workload/growths.ts'
import { nextLook } from '../workload/next-probe.ts'
import { createPortBook } from '../workload/port-allocator.ts'
import { createLooks } from '../workload/prober.ts'
import { type Executor, execute, type Pass } from './execute.ts'
import { createDatabaseMetrics } from './metrics.ts'
import { type Observation, observe } from './observe.ts'
import { type Plan, type PlanSettings, plan } from './plan/index.ts'
import { endedOperation, reportsOf, withProblems } from './report.ts'
import { createTurns, inTurn } from './turns.ts'

type DatabaseControllerOptions = ControllerOptions & {
  keys: () => InstallationKeys
  /** How Postgres is reached, under an authority. */
  accessFor: (authority: NonNullable<InstallationKeys['authority']>) => PostgresAccess
  images: Partial<Record<PgVersion, string>>
  /** What every database's pod is given. */
  pods: PodSettings
  settings: PlanSettings
  workers: number
  /** How many have their certificates issued anew at a time. */
  certificatesAtOnce: number
  events: EventRecorder
}

/** While gateways are waited for, it is looked again even if none says anything: one may have died. */
const acknowledgementMs = 5_000

/** While no port is free, it is looked again even if none is given up: one may be avoided no longer. */
const portMs = 30_000

export function startDatabaseController(options: DatabaseControllerOptions): { stop(): Promise<void> } {
  const { caches, keys, images, pods, settings, events, metrics, logger, now, signal } = options
  const cluster = caches.remembering(options.cluster)
  const startedAt = now()
  const databaseMetrics = createDatabaseMetrics(metrics, () => caches.databases.list())
  /** Databases that wait for the gateways. */
  const awaitingGateways = new Set<string>()
  /** Databases whose region has no port left. */
  const awaitingPort = new Set<string>()
  let controller: Controller | undefined
  const enqueue = (key: string) => controller?.enqueue(key)
  const looks = createLooks({ now, onAnswer: enqueue, logger })
  const sizes = createSizes({ now, onMeasured: enqueue, logger })
  const isTaken = (name: string) => caches.configMaps.get({ namespace: systemNamespace, name }) !== undefined
  const growths = createGrowthBook(now)
  const turns = createTurns({ atOnce: options.certificatesAtOnce, onTurn: enqueue })
  const ports = createPortBook(isTaken, now)
  const executor: Executor = { cluster, ports, growths, now, keys, outdateLooks: looks.outdate }

  const reconcile = async (key: string, passSignal: AbortSignal) => {
    const database = caches.databases.get(parseKey(key))
    if (database === undefined) return forget(key)
    const currentKeys = keys()
    const observer = { caches, cluster, images, pods, now }
    const seen = await observe(observer, database, currentKeys, {
      facts: looks.get(key),
      dataBytes: sizes.get(key),
      growthRefusal: growths.refusalOf(key),
    })
    const observation = { ...seen, observed: inTurn(turns, key, seen.observed) }
    const decided = plan(observation.observed, now(), settings)
    if (decided.awaitsGateways) awaitingGateways.add(key)
    else awaitingGateways.delete(key)
    const pass = passOf(key, observation, currentKeys, passSignal)
    const { problems, errors, awaitsPort, growthRefused, released } = await execute(executor, pass, decided.actions)
    if (released) return forget(key)
    if (awaitsPort && !awaitingPort.has(key))
      logger.warn({ key, problems }, 'no port is free; the database waits for one')
    if (awaitsPort) awaitingPort.add(key)
    else awaitingPort.delete(key)
    await report(database, withProblems(decided.status, problems, now()))
    // What could not be written keeps nobody from looking at Postgres.
    const wakeMs = wakeAfter(pass, decided)
    if (errors.length > 0) throw worst(errors)
    // What was refused is told at once, by the next pass.
    if (growthRefused) return { requeueAfterMs: 0 }
    return { requeueAfterMs: awaitsPort ? Math.min(portMs, wakeMs ?? portMs) : wakeMs }
  }

  const passOf = (
    key: string,
    observation: Observation,
    currentKeys: InstallationKeys,
    passSignal: AbortSignal,
  ): Pass => {
    const { observed } = observation
    const { authority } = currentKeys
    const address = observed.pod?.address
    const owner = observed.identity.state === 'settled' ? observed.identity.owner : undefined
    return {
      ...observation,
      key,
      keys: currentKeys,
      access: authority && options.accessFor(authority),
      target:
        address !== undefined && owner && authority
          ? { host: address, port: postgresPort, serverName: serviceHost(owner), ca: authority.accepted }
          : undefined,
      signal: passSignal,
    }
  }

  /** A database that is gone: so is what was known of it, and routes that no database holds. */
  const forget = async (key: string): Promise<undefined> => {
    looks.forget(key)
    sizes.forget(key)
    growths.forget(key)
    turns.leave(key)
    awaitingGateways.delete(key)
    awaitingPort.delete(key)
    for (const route of caches.configMaps.byIndex('ownerKey', key)) {
      const { namespace, name, uid } = route.metadata
      const { namespace: home, name: database } = parseKey(key)
      const live = await cluster.get('ManagedDatabase', { namespace: home, name: database })
      const isHeld = live?.metadata.labels?.[labels.id] === route.metadata.labels?.[labels.database]
      if (live !== undefined && (isHeld || live.metadata.uid === ownerUidOf(route))) return undefined
      await cluster.delete('ConfigMap', { namespace, name }, { uid })
    }
    return undefined
  }

  const report = async (database: ManagedDatabase, status: ManagedDatabase['status'] & object) => {
    if (canonicalJson(status) === canonicalJson(database.status ?? {})) return
    await cluster.replaceStatus('ManagedDatabase', { ...database, status })
    for (const { type, reason, message } of reportsOf(database.status, status))
      events.record(database, type, reason, message)
    const ended = endedOperation(database.status, status, now())
    if (ended) databaseMetrics.ended(ended)
  }

  /** Asks for a look at Postgres where it is due, and says when to pass again. */
  const wakeAfter = ({ key, observed, access, target, passwords }: Pass, decided: Plan): number | undefined => {
    const wakes: number[] = []
    const { pod, credentials } = observed
    if (decided.wakeAt !== undefined) wakes.push(decided.wakeAt)
    if (decided.awaitsGateways) wakes.push(now() + acknowledgementMs)
    if (pod && target && access && !pod.terminating) {
      const { run, ready } = pod
      const facts = looks.get(key)
      const at = nextLook({
        key,
        facts,
        pod,
        awaited: decided.awaitsPostgres,
        certificateIssuedAt: staleCertificate(observed),
        suspectedAt: looks.suspectedAt(key),
        operatorStartedAt: startedAt,
        now: now(),
      })
      if (at > now()) wakes.push(at)
      else
        looks.request({
          key,
          access,
          target,
          run,
          ready,
          passwords,
          mark: credentials.state === 'readable' ? credentials.mark : undefined,
          commits: !pod.probesWal,
          configuration: decided.configurationDigest,
          isUrgent: pod.writeHangs,
        })
      if (facts?.run === run && facts.answer?.state === 'answered')
        sizes.request({ key, access, target, run, walPosition: facts.answer.walPosition })
    }
    return wakes.length === 0 ? undefined : Math.max(0, Math.min(...wakes) - now())
  }

  controller = startController({
    name: 'managed-database',
    workers: options.workers,
    reconcile,
    keys: () => caches.databases.list().map(keyOf),
    signal,
    logger,
    metrics,
  })
  const suspect = (key: string) => {
    looks.suspect(key)
    enqueue(key)
  }
  const later = (key: string) => controller?.enqueue(key, { priority: lowPriority })
  const unfollow = follow(caches, { enqueue, later, suspect }, { awaitingGateways, awaitingPort }, keys)

  return {
    stop: async () => {
      for (const end of unfollow) end()
      turns.stop()
      await controller?.stop()
      await looks.stop()
      await sizes.stop()
      databaseMetrics.stop()
    },
  }
}

/** When the certificate was issued that Postgres should show and does not. */
function staleCertificate({ certificate, postgres }: Observation['observed']): number | undefined {
  if (certificate.state === 'absent' || postgres?.answer?.state !== 'answered') return undefined
  const shown = postgres.answer.certificate
  return shown === undefined || shown === certificate.fingerprint ? undefined : (certificate.issuedAt ?? 0)
}

/** The error a pass fails with: one that is not a mere conflict, if there is one. */
const worst = (errors: readonly unknown[]): unknown =>
  errors.find(error => !isClusterError(error, 'Conflict')) ?? errors[0]

/** Which databases are looked at again when something changes. */
function follow(
  caches: Caches,
  { enqueue, later, suspect }: Record<'enqueue' | 'later' | 'suspect', (key: string) => void>,
  waiting: { awaitingGateways: Iterable<string>; awaitingPort: Iterable<string> },
  keys: () => InstallationKeys,
): (() => void)[] {
  let known = keys()
  const ofIndex = (index: string, value: string) => {
    for (const database of caches.databases.byIndex(index, value)) enqueue(keyOf(database))
  }
  /** A gateway could not connect to the database that holds this port. */
  const suspectPort = (port: number) => {
    const route = caches.configMaps.get({ namespace: systemNamespace, name: routeName(port) })
    for (const database of caches.databases.byIndex('id', route?.metadata.labels?.[labels.database] ?? ''))
      suspect(keyOf(database))
  }
  const ofChild = ({ object }: { object: AnyObject }) => {
    const owner = ownerKeyOf(object)
    if (owner !== undefined) enqueue(owner)
    ofIndex('id', object.metadata.labels?.[labels.database] ?? '')
  }
  /** In order, so that turns go by it; and after whatever somebody waits for. */
  const all = () => {
    for (const key of caches.databases.list().map(keyOf).sort()) later(key)
  }
  return [
    caches.databases.onChange(({ type, object, previous }) => {
      enqueue(keyOf(object))
      // What it leaves behind, or had an id in common with, may be another's, which was put back in its place.
      const [before, after] = [previous, object].map(database => database?.metadata.labels?.[labels.id])
      if (type === 'deleted') ofIndex('id', after ?? '')
      else if (before !== undefined && before !== after) ofIndex('id', before)
    }),
    caches.statefulSets.onChange(ofChild),
    caches.pods.onChange(ofChild),
    caches.services.onChange(ofChild),
    caches.networkPolicies.onChange(ofChild),
    caches.disruptionBudgets.onChange(ofChild),
    caches.claims.onChange(ofChild),
    caches.volumes.onChange(ofChild),
    caches.secrets.onChange(ofChild),
    caches.configMaps.onChange(change => {
      ofChild(change)
      if (change.type !== 'deleted') return
      for (const key of waiting.awaitingPort) enqueue(key)
    }),
    caches.branches.onChange(({ object }) => enqueue(`${object.metadata.namespace}/${object.spec.databaseName}`)),
    caches.tasks.onChange(({ object }) => {
      if (object.spec.subject.kind === 'database') enqueue(`${object.metadata.namespace}/${object.spec.subject.name}`)
    }),
    caches.sizes.onChange(({ object }) => ofIndex('size', object.metadata.name)),
    caches.regions.onChange(({ object }) => ofIndex('region', object.metadata.name)),
    caches.gateways.onChange(({ type, object, previous }) => {
      for (const key of waiting.awaitingGateways) enqueue(key)
      if (type === 'set') for (const port of newlyUnreachable(object, previous)) suspectPort(port)
    }),
    caches.systemSecrets.onChange(({ object }) => {
      if (!isInstallationKey(object.metadata.name) || keys() === known) return
      known = keys()
      all()
    }),
  ]
}
