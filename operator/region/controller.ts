/**
 * The controller of Regions: restarts the databases and branches that wait for a restart, in their region's maintenance window. It
 * asks for each restart by a mark in the object's status, written at the resourceVersion that the decision is based on; the
 * controller of that kind restarts it. One pass at a time works on a region, so `maxConcurrent` holds.
 */
import { type Cluster, isClusterError } from '../../cluster/index.ts'
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

/** Longest time between two passes of a region with a window: machines sleep, and clocks are set. */
const longestMs = 3600_000

export function startRegionController(options: RegionControllerOptions): { stop(): Promise<void> } {
  const regions = new RegionController(options)
  const unfollow = follow(options, key => regions.enqueue(key))
  return {
    stop: async () => {
      for (const end of unfollow) end()
      await regions.stop()
    },
  }
}

class RegionController {
  readonly #options: RegionControllerOptions
  readonly #cluster: Cluster
  readonly #controller: Controller

  constructor(options: RegionControllerOptions) {
    const { caches, logger, metrics, signal } = options
    this.#options = options
    this.#cluster = caches.writeThrough(options.cluster)
    this.#controller = startController({
      name: 'region',
      workers: 1,
      reconcile: key => this.#reconcile(key),
      keys: () => caches.regions.list().map(keyOf),
      signal,
      logger,
      metrics,
    })
  }

  enqueue(key: string): void {
    this.#controller.enqueue(key)
  }

  stop(): Promise<void> {
    return this.#controller.stop()
  }

  async #reconcile(key: string) {
    const { caches, clock, now } = this.#options
    const { name } = parseKey(key)
    const region = caches.regions.get({ name })
    if (region === undefined) return undefined
    const { maintenance } = region.spec
    const findings = {
      ...snapshotFindings(region, caches.snapshots.served),
      ...notAvailableFindings(region.spec),
      ...clockFindings(clock.doubt()),
    }
    if (maintenance === undefined) {
      await this.#report(region, findings)
      return undefined
    }
    const window = windowAt(maintenance, now())
    const admission = admit(
      [...caches.databases.byIndex('rollout', name), ...caches.branches.byIndex('rollout', name)],
      window.state === 'open' ? window.mark : '',
      maintenance.maxConcurrent,
    )
    if (window.state === 'open')
      for (const candidate of admission.next) await this.#askForRestart(candidate, window.mark)
    await this.#report(region, { Maintenance: findingOf(window, admission), ...findings })
    return { requeueAfterMs: wakeAfter(window, now()) }
  }

  /** A conflict is no error: the change that caused it starts another pass. */
  async #askForRestart(candidate: Candidate, mark: string) {
    const { events, logger, now } = this.#options
    const maintenance = { restart: mark, startedAt: timestamp(now()) }
    try {
      if (candidate.kind === 'Branch')
        await this.#cluster.replaceStatus('Branch', { ...candidate, status: { ...candidate.status, maintenance } })
      else
        await this.#cluster.replaceStatus('ManagedDatabase', {
          ...candidate,
          status: { ...candidate.status, maintenance },
        })
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

  async #report(region: Region, findings: RegionFindings) {
    const { events, now } = this.#options
    const before = region.status?.conditions ?? []
    const conditions = regionConditions(before, findings, region.metadata.generation, now())
    const status = {
      ...region.status,
      conditions,
      domain: withSince(region.status?.domain, { name: region.spec.domain }, now()),
    }
    if (canonicalJson(status) === canonicalJson({ ...region.status, conditions: before })) return
    await this.#cluster.replaceStatus('Region', { ...region, status })
    for (const { type, status, reason, message } of conditions) {
      const isNews = before.find(condition => condition.type === type)?.reason !== reason
      // No event for what this version does not offer: the installation's defaults ask for it too.
      if (status === 'False' && isNews && reason !== notAvailable) events.record(region, 'Warning', reason, message)
    }
  }
}

const wakeAfter = (window: Window, now: number): number => {
  const at = window.state === 'open' ? window.endsAt : window.state === 'closed' ? window.opensAt : undefined
  return Math.min(longestMs, Math.max(0, (at ?? Number.POSITIVE_INFINITY) - now))
}

/** Enqueues the regions that a change concerns. @returns what ends it */
function follow({ caches, clock }: RegionControllerOptions, enqueue: (key: string) => void): (() => void)[] {
  const all = () => {
    for (const region of caches.regions.list()) enqueue(keyOf(region))
  }
  const ofCandidate = ({ object }: { object: Candidate }) => {
    const region = caches.regions.get({ name: object.spec.region })
    if (region?.spec.maintenance !== undefined) enqueue(keyOf(region))
  }
  return [
    clock.onChange(all),
    caches.regions.onChange(({ object }) => enqueue(keyOf(object))),
    caches.databases.onChange(ofCandidate),
    caches.branches.onChange(ofCandidate),
    caches.snapshots.onServed(all),
  ]
}

const named = (candidates: readonly Candidate[]): string => {
  const names = candidates.slice(0, 5).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  return `${names.join(', ')}${candidates.length > names.length ? ` and ${candidates.length - names.length} more` : ''}`
}

/** True while the window works, open or closed. False: why no restart takes place. */
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
