/**
 * Remembers what is learnt between the passes about the Postgres instances of one kind of owner: answers, sizes, refusals, ports. It
 * holds nothing that another process could not find out again.
 */
import type { Logger } from 'pino'
import type { Cluster, Service } from '../../cluster/index.ts'

import { systemNamespace } from '../../crds/index.ts'
import type { Passwords } from '../../sealing/credentials.ts'
import type { Caches } from '../caches.ts'
import { createDriftHistory, type DriftHistory } from '../children/drift-history.ts'
import { createCertificateQueue, withQueue } from '../endpoint/certificate-queue.ts'
import { createGatewayReports } from '../endpoint/gateway-reports.ts'
import type { CertificateFacts, ObservedEndpoint } from '../endpoint/observed.ts'
import { createPortAllocator } from '../endpoint/port-allocator.ts'
import type { InstallationKeys } from '../keys.ts'
import type { MemberPass } from '../member/act.ts'
import type { ObservedMember } from '../member/observed.ts'
import type { PodFacts } from '../member/pod/pod.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { dataSize, Measurements, volumeUse } from '../member/postgres/measurements.ts'
import { nextProbe } from '../member/postgres/next-probe.ts'
import { createProber } from '../member/postgres/prober.ts'
import { clientPath, targetAt } from '../member/postgres/target.ts'
import { createGrowthRefusals, type GrowthRefusals } from '../member/storage/growth-refusals.ts'
import type { DesiredAuthenticator } from '../postgres/administrator.ts'
import type { Executor, Pass } from './act.ts'
import type { Observation, PriorFacts } from './observe.ts'
import type { Observed } from './observed.ts'

type WorkloadOptions = {
  /** Every write goes through it. */
  cluster: Cluster
  caches: Caches
  keys: () => InstallationKeys
  /** Returns the access to Postgres under an authority. */
  accessFor: (authority: NonNullable<InstallationKeys['authority']>) => PostgresAccess
  /** Most certificates that are issued at a time while an authority is replaced. */
  certificatesAtOnce: number
  /** Something new is known of this owner's instance. */
  enqueue: (key: string) => void
  logger: Logger
  now: () => number
}

/** What a plan waits for. `wakeAt`: when to pass again, in ms since the epoch. */
type Waits = {
  awaitsPostgres: boolean
  awaitsGateways: boolean
  configurationDigest: string | undefined
  wakeAt: number | undefined
}

/** A pass over an owner; or over one member, of which no client logs in and no certificate is awaited. */
type ProbedPass = Omit<MemberPass, 'observed'> & {
  observed: ObservedMember &
    Partial<Pick<ObservedEndpoint, 'certificate' | 'credentials'>> & { children: { service?: Service | undefined } }
  passwords?: Passwords | undefined
  authenticator?: DesiredAuthenticator | undefined
}

/** While a pass waits for gateways, it is repeated even without an event: a gateway may have died. */
const acknowledgementMs = 5_000

export const createWorkloads = (options: WorkloadOptions): Workloads => new Workloads(options)

class Workloads {
  readonly executor: Executor
  readonly #options: WorkloadOptions
  readonly #startedAt: number
  readonly #prober: ReturnType<typeof createProber>
  readonly #dataSize: Measurements
  readonly #volumeUse: Measurements
  readonly #growthRefusals: GrowthRefusals
  readonly #drifts: DriftHistory
  readonly #reports: ReturnType<typeof createGatewayReports>
  readonly #certificates: ReturnType<typeof createCertificateQueue>

  constructor(options: WorkloadOptions) {
    const { cluster, caches, keys, certificatesAtOnce, enqueue, logger, now } = options
    this.#options = options
    this.#startedAt = now()
    this.#prober = createProber({ now, onAnswer: enqueue, logger })
    this.#dataSize = new Measurements(dataSize, { now, onMeasured: enqueue, logger })
    this.#volumeUse = new Measurements(volumeUse, { now, onMeasured: enqueue, logger })
    this.#growthRefusals = createGrowthRefusals(now)
    this.#drifts = createDriftHistory(now)
    this.#reports = createGatewayReports(key => this.#isLoginProved(key), now)
    this.#certificates = createCertificateQueue({ atOnce: certificatesAtOnce, onSlot: enqueue })
    const isTaken = (name: string) => caches.configMaps.get({ namespace: systemNamespace, name }) !== undefined
    this.executor = {
      ...{ cluster, keys, now, ports: createPortAllocator(isTaken, now) },
      ...{ growthRefusals: this.#growthRefusals, drifts: this.#drifts, outdateProbe: this.#prober.outdate },
    }
  }

  /** Returns what was learnt before the pass. */
  prior(key: string): PriorFacts {
    return {
      facts: this.#prober.get(key),
      dataBytes: this.#dataSize.get(key),
      volumeUse: this.#volumeUse.get(key),
      growthRefusal: this.#growthRefusals.refusalOf(key),
      drifts: this.#drifts.of(key),
      isCutOff: this.#reports.isCutOff(key),
    }
  }

  /** Adds to what was observed whether the certificate of this instance may be issued now. */
  withQueue<O extends Observed>(key: string, observed: O): O {
    return withQueue(this.#certificates, key, observed)
  }

  /** Returns what a pass over one member performs the member's actions with. */
  memberPass<O extends ObservedMember>(
    key: string,
    observed: O,
    { authority }: InstallationKeys,
    signal: AbortSignal,
  ): MemberPass & { observed: O } {
    const { owner, pod } = observed
    const address = pod?.address
    const target = address !== undefined && owner && authority ? targetAt(owner, address, authority) : undefined
    return { key, observed, access: authority && this.#options.accessFor(authority), target, signal }
  }

  /** Returns what a pass over an owner performs its actions with. */
  pass<O extends Observed>(
    key: string,
    observation: Observation<O>,
    keys: InstallationKeys,
    signal: AbortSignal,
  ): Pass & Observation<O> {
    return { ...observation, ...this.memberPass(key, observation.observed, keys, signal), keys }
  }

  /** Probes and measures Postgres if that is due. @returns in how many ms to pass again; undefined: after an event only */
  wakeAfter(pass: ProbedPass, waits: Waits): number | undefined {
    const now = this.#options.now()
    const wakes = [
      waits.wakeAt,
      waits.awaitsGateways ? now + acknowledgementMs : undefined,
      this.#probe(pass, waits),
      this.#measureVolume(pass),
    ]
    const known = wakes.filter(at => at !== undefined)
    return known.length === 0 ? undefined : Math.max(0, Math.min(...known) - now)
  }

  /** A client could not reach this Postgres. */
  reportUnreachable(key: string): void {
    this.#prober.reportUnreachable(key)
  }

  /** `listed`: every owner whose Postgres a gateway cannot connect to, by the Leases of the moment. */
  reported(listed: ReadonlySet<string>): void {
    for (const key of this.#reports.heard(listed)) this.#options.enqueue(key)
  }

  forget(key: string): void {
    for (const memory of [
      this.#prober,
      this.#dataSize,
      this.#volumeUse,
      this.#growthRefusals,
      this.#drifts,
      this.#reports,
    ])
      memory.forget(key)
    this.#certificates.release(key)
  }

  async stop(): Promise<void> {
    this.#certificates.stop()
    await this.#prober.stop()
    await this.#dataSize.stop()
    await this.#volumeUse.stop()
  }

  #isLoginProved(key: string): boolean {
    const answer = this.#prober.get(key)?.answer
    return answer?.state === 'answered' && answer.login === 'succeeded'
  }

  #probe(pass: ProbedPass, waits: Waits): number | undefined {
    const { key, observed, access, target } = pass
    const { pod } = observed
    if (pod === undefined || target === undefined || access === undefined || pod.terminating) return undefined
    const { now } = this.#options
    const facts = this.#prober.get(key)
    if (facts?.run === pod.run && facts.answer?.state === 'answered')
      this.#dataSize.request({ key, access, target, run: pod.run, walPosition: facts.answer.walPosition })
    const at = nextProbe({
      key,
      facts,
      pod,
      awaited: waits.awaitsPostgres,
      certificateIssuedAt: staleCertificate(observed),
      latestCertificateAt: issuedAt(observed.certificate),
      suspectedAt: this.#prober.suspectedAt(key),
      operatorStartedAt: this.#startedAt,
      now: now(),
    })
    if (at > now()) return at
    this.#prober.request({ ...probeOf(pass, pod), key, access, target, configuration: waits.configurationDigest })
    return undefined
  }

  /** Of a volume that grows by itself. It does not wait for a probe, so that the use is known soon after a failover. */
  #measureVolume({ key, observed, access, target }: ProbedPass): number | undefined {
    const { instance, pod } = observed
    if (instance.spec.storage?.autogrow === undefined) {
      this.#volumeUse.forget(key)
      return undefined
    }
    if (pod?.address === undefined || pod.terminating || access === undefined || target === undefined) return undefined
    return this.#volumeUse.request({ key, access, target, run: pod.run })
  }
}

const probeOf = (
  { observed, passwords, authenticator }: ProbedPass,
  { run, ready, probesWal, writeHangs }: PodFacts,
) => ({
  clientPath: clientPath(observed),
  run,
  ready,
  ...{ passwords, authenticator },
  mark: observed.credentials?.state === 'readable' ? observed.credentials.mark : undefined,
  commits: !probesWal,
  isUrgent: writeHangs,
})

const issuedAt = (certificate: CertificateFacts | undefined): number | undefined =>
  certificate === undefined || certificate.state === 'absent' ? undefined : certificate.issuedAt

/** When the certificate was issued that Postgres should show and does not. */
function staleCertificate({ certificate, postgres }: ProbedPass['observed']): number | undefined {
  if (certificate === undefined || certificate.state === 'absent' || postgres?.answer?.state !== 'answered')
    return undefined
  const shown = postgres.answer.certificate
  return shown === undefined || shown === certificate.fingerprint ? undefined : (certificate.issuedAt ?? 0)
}
