/**
 * Stores facts between passes about the Postgres instances of one kind of owner: of each member (member/memory.ts), and
 * of the owner's endpoint. A new process can find all of them again.
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
  /** Most certificates that are issued at a time while an authority is replaced. */
  certificatesAtOnce: number
}

/** The waits of a plan. `requeueAt`: when to pass again, in ms since the epoch. */
type Waits = MemberWaits & { awaitsGateways: boolean; requeueAt: number | undefined }

/** While a pass waits for gateways, it is repeated even without an event: a gateway may have died. */
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

  /** Returns the facts from before the pass. */
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
   * Probes and measures Postgres if that is due. @returns in how many ms to pass again; undefined: only after an event
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

  /** A client could not connect to this owner's Postgres. */
  reportUnreachable(key: string): void {
    this.#members.reportUnreachable(key)
  }

  /** `listed`: every owner to whose Postgres a gateway cannot connect, by the present Leases. */
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
