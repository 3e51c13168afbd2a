/**
 * The controller of Regions. In a region's maintenance window it grants restart slots to the databases and branches
 * that wait for a restart. The Region's status lists the slots. The controller writes it with the resourceVersion on
 * which the decision is based, before anything restarts. So `maxConcurrent` is never exceeded. The controller of owners
 * starts the restart.
 */
import type { Cluster } from '../../cluster/index.ts'
import { keyOf, parseKey } from '../../cluster/informer/index.ts'
import { type Controller, type EventRecorder, startController } from '../../controller/index.ts'
import { canonicalJson, notAvailable, type Region, systemNamespace, type Turn } from '../../crds/index.ts'
import { gatewayHttpsSecret } from '../../sealing/credentials.ts'
import { timestamp } from '../../values/time.ts'
import type { ControllerOptions } from '../controller-options.ts'
import type { InstallationKeys } from '../keys.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { type Candidate, expiresAt } from '../objects/maintenance-turn.ts'
import { withSince } from '../objects/since.ts'
import { type Admission, admit, countedTurns } from './admission.ts'
import { regionCertificate, storedCertificate } from './certificate.ts'
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
  keys: () => InstallationKeys
}

/** The longest time between two passes of a region with a window, because machines sleep and clocks are set. */
const longestMs = 3600_000

export function startRegionController(options: RegionControllerOptions): { stop(): Promise<void> } {
  const regions = new RegionController(options)
  const unsubscribe = follow(options, key => regions.enqueue(key))
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
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
    const distrust = clock.distrust()
    const findings = {
      ...snapshotFindings(region, caches.snapshots.served),
      ...this.#certificateFindings(region),
      ...notAvailableFindings(region.spec),
      ...clockFindings(distrust),
    }
    const before = region.status?.turns ?? []
    const counted = countedTurns(before, turn => this.#candidateOf(turn), now())
    if (maintenance === undefined) {
      await this.#report(region, findings, counted)
      return requeueAfter([nextExpiry(counted, now())], now())
    }
    const window = windowAt(maintenance, now())
    const admission = admit(
      [...caches.databases.byIndex('rollout', name), ...caches.branches.byIndex('rollout', name)],
      counted,
      window.state === 'open' ? window.id : '',
      maintenance.maxConcurrent,
      before.filter(turn => !counted.includes(turn)),
    )
    const isGranting = window.state === 'open' && distrust === undefined
    const granted = isGranting ? admission.next.map(candidate => turnOf(candidate, window.id, now())) : []
    const turns = [...counted, ...granted]
    await this.#report(region, { Maintenance: findingOf(window, admission, distrust), ...findings }, turns)
    return requeueAfter([changeOf(window), now() + longestMs, nextExpiry(turns, now())], now())
  }

  #certificateFindings(region: Region): RegionFindings {
    const { caches, keys, now } = this.#options
    const secretNamed = (name: string) => caches.systemSecrets.get({ namespace: systemNamespace, name })
    const stored = storedCertificate(secretNamed(gatewayHttpsSecret), region.metadata.name)
    const named = region.spec.certificate && secretNamed(region.spec.certificate.secretName)
    const certificate = regionCertificate(region, { authority: keys().authority, stored, named }, now)
    return certificate === undefined ? {} : { CertificateReady: certificate.finding }
  }

  #candidateOf({ kind, namespace, name }: Turn): Candidate | undefined {
    const { databases, branches } = this.#options.caches
    return kind === 'Branch' ? branches.get({ namespace, name }) : databases.get({ namespace, name })
  }

  async #report(region: Region, findings: RegionFindings, turns: Turn[]) {
    const { events, now } = this.#options
    const before = region.status?.conditions ?? []
    const conditions = regionConditions(before, findings, region.metadata.generation, now())
    const status = {
      ...region.status,
      conditions,
      domain: withSince(region.status?.domain, { name: region.spec.domain }, now()),
      turns: turns.length > 0 ? turns : undefined,
    }
    if (canonicalJson(status) === canonicalJson({ ...region.status, conditions: before })) return
    await this.#cluster.replaceStatus('Region', { ...region, status })
    for (const { type, status, reason, message } of conditions) {
      const isNews = before.find(condition => condition.type === type)?.reason !== reason
      // No event reports these fields, because the installation's defaults also set them.
      if (status === 'False' && isNews && reason !== notAvailable) events.record(region, 'Warning', reason, message)
    }
  }
}

const turnOf = ({ kind, metadata }: Candidate, window: string, now: number): Turn => {
  const { namespace = '', name, uid = '' } = metadata
  return { kind, namespace, name, uid, window, grantedAt: timestamp(now) }
}

/** The time when the window opens or closes. */
const changeOf = (window: Window): number | undefined =>
  window.state === 'open' ? window.endsAt : window.state === 'closed' ? window.opensAt : undefined

/** A used slot counts longer, until the restart ends. */
const nextExpiry = (turns: readonly Turn[], now: number): number | undefined => {
  const times = turns.map(expiresAt).filter(at => at > now)
  return times.length > 0 ? Math.min(...times) : undefined
}

const requeueAfter = (times: (number | undefined)[], now: number): { requeueAfterMs: number } | undefined => {
  const known = times.filter(at => at !== undefined)
  return known.length > 0 ? { requeueAfterMs: Math.max(0, Math.min(...known) - now) } : undefined
}

/** Enqueues the regions that a change concerns. @returns functions that unsubscribe */
function follow({ caches, clock }: RegionControllerOptions, enqueue: (key: string) => void): (() => void)[] {
  const all = () => {
    for (const region of caches.regions.list()) enqueue(keyOf(region))
  }
  const ofCandidate = ({ object }: { object: Candidate }) => {
    const region = caches.regions.get({ name: object.spec.region })
    if (region === undefined) return
    if (region.spec.maintenance !== undefined || region.status?.turns !== undefined) enqueue(keyOf(region))
  }
  return [
    clock.onChange(all),
    caches.regions.onChange(({ object }) => enqueue(keyOf(object))),
    caches.systemSecrets.onChange(all),
    caches.databases.onChange(ofCandidate),
    caches.branches.onChange(ofCandidate),
    caches.snapshots.onServed(all),
  ]
}

const named = (candidates: readonly Candidate[]): string => {
  const names = candidates.slice(0, 5).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
  return `${names.join(', ')}${candidates.length > names.length ? ` and ${candidates.length - names.length} more` : ''}`
}

/** True while the window works, open or closed. False with the reason if no restart takes place. */
function findingOf(window: Window, { failed }: Admission, clockDistrust: string | undefined): Finding {
  if (window.state === 'invalid') return no('ScheduleInvalid', `spec.maintenance: ${window.message}`)
  if (failed.length > 0)
    return no(
      'RolloutStopped',
      `not serving since their restart in a window: ${named(failed)}. The operator restarts no other database until they serve`,
    )
  if (window.state === 'open' && clockDistrust !== undefined)
    return no('ClockDoubtful', `the operator begins no restart while the clock is not trusted: ${clockDistrust}`)
  return window.state === 'open'
    ? yes('WindowOpen', `open until ${timestamp(window.endsAt)}`)
    : yes('WindowClosed', window.opensAt === undefined ? 'never opens again' : `opens at ${timestamp(window.opensAt)}`)
}
