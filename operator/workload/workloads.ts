/**
 * Stores facts between passes about the Postgres instances of one kind of owner: facts about each member
 * (member/memory.ts), and about the owner's endpoint. After a restart, the operator determines all of them again.
 */
import { firstMember, systemNamespace } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { createCertificateQueue, withQueue } from '../endpoint/certificate-queue.ts'
import { createGatewayReports } from '../endpoint/gateway-reports.ts'
import { createPortAllocator } from '../endpoint/port-allocator.ts'
import type { InstallationKeys } from '../keys.ts'
import { MemberMemory, type MemberWaits, type MemoryOptions, type ProbedPass } from '../member/memory.ts'
import { earliest } from '../objects/earliest.ts'
import type { Executor, Pass } from './act.ts'
import type { Observation, PriorFacts } from './observe.ts'
import type { Observed } from './observed.ts'

type WorkloadOptions = MemoryOptions & {
  caches: Caches
  /** How many certificates are issued at the same time while an authority is replaced. */
  certificatesAtOnce: number
}

/** What a plan waits for. `requeueAt`: the time of the next pass, in ms since the epoch. */
type Waits = MemberWaits & { awaitsGateways: boolean; requeueAt: number | undefined }

/** The interval of passes that wait for gateways. No event reports that a gateway has died. */
const acknowledgementMs = 5_000

export const createWorkloads = (options: WorkloadOptions): Workloads => new Workloads(options)

class Workloads {
  readonly executor: Executor
  readonly #options: WorkloadOptions
  readonly #members: MemberMemory
  readonly #reports: ReturnType<typeof createGatewayReports>
  readonly #certificates: ReturnType<typeof createCertificateQueue>

  constructor(options: WorkloadOptions) {
    const { caches, certificatesAtOnce, enqueue, now } = options
    this.#options = options
    this.#members = new MemberMemory(options)
    this.#reports = createGatewayReports(key => this.#members.isLoginProved(key), now)
    this.#certificates = createCertificateQueue({ atOnce: certificatesAtOnce, onSlot: enqueue })
    const isTaken = (name: string) => caches.configMaps.get({ namespace: systemNamespace, name }) !== undefined
    this.executor = { ...this.#members.executor, ports: createPortAllocator(isTaken, now) }
  }

  /** Returns facts from earlier passes. */
  prior(key: string): PriorFacts {
    return { ...this.#members.prior(key, firstMember), isCutOff: this.#reports.isCutOff(key) }
  }

  /** Adds to the observed state whether the certificate of this owner may be issued now. */
  withQueue<O extends Observed>(key: string, observed: O): O {
    return withQueue(this.#certificates, key, observed)
  }

  /** Returns the tools with which a pass performs an owner's actions. */
  pass<O extends Observed>(
    key: string,
    observation: Observation<O>,
    keys: InstallationKeys,
    signal: AbortSignal,
  ): Pass & Observation<O> & Pick<ProbedPass, 'references'> {
    const { references } = observation.observed.services
    return { ...observation, ...this.#members.pass(key, observation.observed, keys, signal), keys, references }
  }

  /**
   * Probes and measures Postgres if that is due.
   * @returns the ms until the next pass; undefined if only an event causes the next pass
   */
  requeueAfter(pass: ProbedPass, waits: Waits): number | undefined {
    const now = this.#options.now()
    const requeueAt = earliest(
      waits.requeueAt,
      waits.awaitsGateways ? now + acknowledgementMs : undefined,
      this.#members.probe(pass, waits),
    )
    return requeueAt === undefined ? undefined : Math.max(0, requeueAt - now)
  }

  /** Reports that a client could not connect to this owner's Postgres. */
  reportUnreachable(key: string): void {
    this.#members.reportUnreachable(key)
  }

  /** `listed`: the owners whose Postgres a gateway cannot connect to, according to the current Leases. */
  reported(listed: ReadonlySet<string>): void {
    for (const key of this.#reports.update(listed)) this.#options.enqueue(key)
  }

  forget(key: string): void {
    this.#members.forget(key)
    this.#reports.forget(key)
    this.#certificates.release(key)
  }

  async stop(): Promise<void> {
    this.#certificates.stop()
    await this.#members.stop()
  }
}
