/**
 * The controller of Regions: in a region's maintenance window it has databases restarted that something waits in for a
 * restart. It asks for each by a mark in the database's status, with the resourceVersion that it was decided on; the
 * controller of databases does the rest. One region is worked on by one pass at a time, so two are never counted as one.
 */
// @ts-nocheck

import { isClusterError } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, type EventRecorder, startController } from '../../controller/index.ts'
import { canonicalJson, type ManagedDatabase, notAvailable, type Region } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { type Admission, admit } from './admission.ts'
import { notAvailableFindings, type RegionFindings, regionConditions, snapshotFindings } from './conditions.ts'
import { type Window, windowAt } from './window.ts'

type RegionControllerOptions = ControllerOptions & {
  events: EventRecorder
}

/** However far away the window is, it is looked again: machines sleep, and clocks are set. */
const longestMs = 3600_000

export function startRegionController(options: RegionControllerOptions): { stop(): Promise<void> } {
  const { caches, events, logger, metrics, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  let controller: Controller | undefined

  const reconcile = async (key: string) => {
    const { name } = parseKey(key)
    const region = caches.regions.get({ name })
    if (region === undefined) return undefined
    const { maintenance } = region.spec
    const asked = { ...snapshotFindings(region, caches.snapshots.served), ...notAvailableFindings(region.spec) }
    if (maintenance === undefined) {
      await report(region, asked)
      return undefined
    }
    const window = windowAt(maintenance, now())
    const admission = admit(
      caches.databases.byIndex('rollout', name),
      window.state === 'open' ? window.mark : '',
      maintenance.maxConcurrent,
    )
    if (window.state === 'open') for (const database of admission.next) await begin(database, window.mark)
    await report(region, { Maintenance: findingOf(window, admission), ...asked })
    return { requeueAfterMs: wakeAfter(window) }
  }

  const wakeAfter = (window: Window): number => {
    const at = window.state === 'open' ? window.endsAt : window.state === 'closed' ? window.opensAt : undefined
    return Math.min(longestMs, Math.max(0, (at ?? Number.POSITIVE_INFINITY) - now()))
  }

  /** Whoever changed the database meanwhile has it looked at again, as what it is by then. */
  const begin = async (database: ManagedDatabase, mark: string) => {
    const status = { ...database.status, maintenance: { restart: mark, startedAt: timestamp(now()) } }
    try {
      await cluster.replaceStatus('ManagedDatabase', { ...database, status })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
      return
    }
    logger.info({ database: keyOf(database), window: mark }, 'restarts a database in the maintenance window')
    const reasons = (database.status?.pendingRestart ?? []).map(({ message }) => message).join('; ')
    events.record(
      database,
      'Normal',
      'MaintenanceRestart',
      `restarted in the region's window: ${reasons}`.slice(0, 1000),
    )
  }

  const report = async (region: Region, findings: RegionFindings) => {
    const before = region.status?.conditions ?? []
    const conditions = regionConditions(before, findings, region.metadata.generation, now())
    if (canonicalJson(conditions) === canonicalJson(before)) return
    await cluster.replaceStatus('Region', { ...region, status: { ...region.status, conditions } })
    for (const { type, status, reason, message } of conditions) {
      const isNews = before.find(condition => condition.type === type)?.reason !== reason
      // What is not there yet is said where it is asked for; the installation's own default asks for it too.
      if (status === 'False' && isNews && reason !== notAvailable) events.record(region, 'Warning', reason, message)
    }
  }

  controller = startController({
    name: 'region',
    workers: 1,
    reconcile,
    keys: () => caches.regions.list().map(keyOf),
    signal,
    logger,
    metrics,
  })
  const ofDatabase = ({ object }: { object: ManagedDatabase }) => {
    const region = caches.regions.get({ name: object.spec.region })
    if (region?.spec.maintenance !== undefined) controller?.enqueue(keyOf(region))
  }
  const unfollow = [
    caches.regions.onChange(({ object }) => controller?.enqueue(keyOf(object))),
    caches.databases.onChange(ofDatabase),
    caches.snapshots.onServed(() => {
      for (const region of caches.regions.list()) controller?.enqueue(keyOf(region))
    }),
  ]
  return {
    stop: async () => {
      for (const end of unfollow) end()
      await controller?.stop()
    },
  }
}

const named = (databases: readonly ManagedDatabase[]): string => {
  const names = databases.slice(0, 5).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  return `${names.join(', ')}${databases.length > names.length ? ` and ${databases.length - names.length} more` : ''}`
}

/** True: all is well, be the window open or not. False: what is planned does not happen, and why. */
function findingOf(window: Window, { failed }: Admission): Finding {
  if (window.state === 'invalid') return no('ScheduleInvalid', `spec.maintenance: ${window.message}`)
  if (failed.length > 0)
    return no(
      'RolloutStopped',
      `restarted in a window, and not serving since: ${named(failed)}. No other is restarted until they serve`,
    )
  return window.state === 'open'
    ? yes('WindowOpen', `open until ${timestamp(window.endsAt)}`)
    : yes('WindowClosed', window.opensAt === undefined ? 'never opens again' : `opens at ${timestamp(window.opensAt)}`)
}
