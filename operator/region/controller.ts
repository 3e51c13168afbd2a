/**
 * The controller of Regions: in a region's maintenance window it has databases and branches restarted that something waits in for a
 * restart. It asks for each by a mark in its status, with the resourceVersion that it was decided on; the controller of its kind does
 * the rest. One region is worked on by one pass at a time, so two are never counted as one.
 */
import { isClusterError } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, type EventRecorder, startController } from '../../controller/index.ts'
import { canonicalJson, notAvailable, type Region } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { withSince } from '../objects/since.ts'
import { type Admission, admit, type Candidate } from './admission.ts'
import {
  clockFindings,
  notAvailableFindings,
  type RegionFindings,
  regionConditions,
  snapshotFindings,
} from './conditions.ts'
import { type Window, windowAt } from './window.ts'

type RegionControllerOptions = ControllerOptions & {
  events: EventRecorder
}

/** However far away the window is, it is looked again: machines sleep, and clocks are set. */
const longestMs = 3600_000

export function startRegionController(options: RegionControllerOptions): { stop(): Promise<void> } {
  const { caches, events, clock, logger, metrics, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  let controller: Controller | undefined

  const reconcile = async (key: string) => {
    const { name } = parseKey(key)
    const region = caches.regions.get({ name })
    if (region === undefined) return undefined
    const { maintenance } = region.spec
    const asked = {
      ...snapshotFindings(region, caches.snapshots.served),
      ...notAvailableFindings(region.spec),
      ...clockFindings(clock.doubt()),
    }
    if (maintenance === undefined) {
      await report(region, asked)
      return undefined
    }
    const window = windowAt(maintenance, now())
    const admission = admit(
      [...caches.databases.byIndex('rollout', name), ...caches.branches.byIndex('rollout', name)],
      window.state === 'open' ? window.mark : '',
      maintenance.maxConcurrent,
    )
    if (window.state === 'open') for (const candidate of admission.next) await begin(candidate, window.mark)
    await report(region, { Maintenance: findingOf(window, admission), ...asked })
    return { requeueAfterMs: wakeAfter(window) }
  }

  const wakeAfter = (window: Window): number => {
    const at = window.state === 'open' ? window.endsAt : window.state === 'closed' ? window.opensAt : undefined
    return Math.min(longestMs, Math.max(0, (at ?? Number.POSITIVE_INFINITY) - now()))
  }

  /** Whoever changed it meanwhile has it looked at again, as what it is by then. */
  const begin = async (candidate: Candidate, mark: string) => {
    const maintenance = { restart: mark, startedAt: timestamp(now()) }
    try {
      if (candidate.kind === 'Branch')
        await cluster.replaceStatus('Branch', { ...candidate, status: { ...candidate.status, maintenance } })
      else
        await cluster.replaceStatus('ManagedDatabase', { ...candidate, status: { ...candidate.status, maintenance } })
    } catch (error) {
      if (!isClusterError(error, 'Conflict', 'NotFound')) throw error
      return
    }
    logger.info({ kind: candidate.kind, key: keyOf(candidate), window: mark }, 'restarts it in the maintenance window')
    const reasons = (candidate.status?.pendingRestart ?? []).map(({ message }) => message).join('; ')
    events.record(
      candidate,
      'Normal',
      'MaintenanceRestart',
      `restarted in the region's window: ${reasons}`.slice(0, 1000),
    )
  }

  const report = async (region: Region, findings: RegionFindings) => {
    const before = region.status?.conditions ?? []
    const conditions = regionConditions(before, findings, region.metadata.generation, now())
    const status = {
      ...region.status,
      conditions,
      domain: withSince(region.status?.domain, { name: region.spec.domain }, now()),
    }
    if (canonicalJson(status) === canonicalJson({ ...region.status, conditions: before })) return
    await cluster.replaceStatus('Region', { ...region, status })
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
  const ofCandidate = ({ object }: { object: Candidate }) => {
    const region = caches.regions.get({ name: object.spec.region })
    if (region?.spec.maintenance !== undefined) controller?.enqueue(keyOf(region))
  }
  const unfollow = [
    clock.onChange(() => {
      for (const region of caches.regions.list()) controller?.enqueue(keyOf(region))
    }),
    caches.regions.onChange(({ object }) => controller?.enqueue(keyOf(object))),
    caches.databases.onChange(ofCandidate),
    caches.branches.onChange(ofCandidate),
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

const named = (candidates: readonly Candidate[]): string => {
  const names = candidates.slice(0, 5).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  return `${names.join(', ')}${candidates.length > names.length ? ` and ${candidates.length - names.length} more` : ''}`
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
