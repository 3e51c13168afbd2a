/**
 * Stores facts about Postgres members between passes, by owner and member number: answers, measured sizes, refused
 * growth. After a restart, the operator determines all of them again.
 */
import type { Logger } from 'pino'
import type { Cluster, Service } from '../../cluster/index.ts'
import { firstMember } from '../../crds/index.ts'
import type { Passwords } from '../../sealing/credentials.ts'
import { createDriftHistory, type DriftHistory } from '../children/drift-history.ts'
import type { InstallationKeys } from '../keys.ts'
import { earliest } from '../objects/earliest.ts'
import type { DesiredAuthenticator, DesiredMcpState, References } from '../postgres/administrator.ts'
import type { MemberExecutor, MemberPass } from './act.ts'
import { memberKeyOf, ownerOfMemberKey } from './member.ts'
import type { PriorMemberFacts } from './observe.ts'
import type { ObservedMember } from './observed.ts'
import type { PodFacts } from './pod/pod.ts'
import type { PostgresAccess } from './postgres/access.ts'
import { dataSize, Measurements, volumeUse } from './postgres/measurements.ts'
import { nextProbe } from './postgres/next-probe.ts'
import { createProber } from './postgres/prober.ts'
import { clientPath, targetAt } from './postgres/target.ts'
import { createGrowthRefusals, type GrowthRefusals } from './storage/growth-refusals.ts'

export type MemoryOptions = {
  /** The cluster that the operator writes to. */
  cluster: Cluster
  /** Returns the access to Postgres under an authority. */
  accessFor: (authority: NonNullable<InstallationKeys['authority']>) => PostgresAccess
  /** Called when a member of this owner has answered or was measured. */
  enqueue: (owner: string) => void
  keys: () => InstallationKeys
  logger: Logger
  now: () => number
}

/** The part of an endpoint's observation that a probe needs: the certificate, and the version of the passwords. */
type Served = {
  certificate?:
    | { state: 'absent' }
    | { state: 'due' | 'good'; fingerprint: string | undefined; issuedAt: number | undefined }
  credentials?: { state: 'absent' | 'unreadable' } | { state: 'readable'; passwordVersion: string }
}

/** A pass over a member, with the state of its endpoint. */
export type ProbedPass = Omit<MemberPass, 'observed'> & {
  observed: ObservedMember & Served & { children: { service?: Service | undefined } }
  passwords?: Passwords | undefined
  /** The login of the service `rest`. */
  authenticator?: DesiredAuthenticator | undefined
  /** The objects that the services' configurations name. */
  references?: References | undefined
  /** The storage of the service `mcp` for its conversations. */
  mcpState?: DesiredMcpState | undefined
}

/** Whether the pass's plan waits for Postgres, and the digest of the desired files. */
export type MemberWaits = { awaitsPostgres: boolean; configurationDigest: string | undefined }

export class MemberMemory {
  readonly executor: MemberExecutor
  /** By owner. The children's names contain the member's number. */
  readonly drifts: DriftHistory
  readonly #options: MemoryOptions
  readonly #startedAt: number
  readonly #prober: ReturnType<typeof createProber>
  readonly #dataSize: Measurements
  readonly #volumeUse: Measurements
  readonly #growthRefusals: GrowthRefusals
  /** The keys of the members of each owner. */
  readonly #members = new Map<string, Set<string>>()

  constructor(options: MemoryOptions) {
    const { cluster, logger, now } = options
    const report = (member: string) => options.enqueue(ownerOfMemberKey(member))
    this.#options = options
    this.#startedAt = now()
    this.#prober = createProber({ now, onAnswer: report, logger })
    this.#dataSize = new Measurements(dataSize, { now, onMeasured: report, logger })
    this.#volumeUse = new Measurements(volumeUse, { now, onMeasured: report, logger })
    this.#growthRefusals = createGrowthRefusals(now)
    this.drifts = createDriftHistory(now)
    this.executor = {
      ...{ cluster, drifts: this.drifts },
      ...{ keys: options.keys, now },
      ...{ growthRefusals: this.#growthRefusals, outdateProbe: this.#prober.outdate },
    }
  }

  /** Returns the known facts of a member before the pass. */
  prior(owner: string, number: number): PriorMemberFacts {
    const member = this.#keyOf(owner, number)
    return {
      facts: this.#prober.get(member),
      dataBytes: this.#dataSize.get(member),
      volumeUse: this.#volumeUse.get(member),
      growthRefusal: this.#growthRefusals.refusalOf(member),
      drifts: this.drifts.of(owner),
    }
  }

  /** Returns the inputs with which a pass performs the member's actions. */
  pass<O extends ObservedMember>(
    key: string,
    observed: O,
    { authority }: InstallationKeys,
    signal: AbortSignal,
  ): MemberPass & { observed: O } {
    const { owner, pod, number } = observed
    const address = pod?.address
    const target = address !== undefined && owner && authority ? targetAt(owner, address, authority) : undefined
    const access = authority && this.#options.accessFor(authority)
    return { key, memberKey: this.#keyOf(key, number), observed, access, target, signal }
  }

  /**
   * Probes and measures Postgres if a probe or a measurement is due.
   * @returns the time of the next pass, in ms since the epoch; undefined if only an event causes the next pass
   */
  probe(pass: ProbedPass, waits: MemberWaits): number | undefined {
    return earliest(this.#probe(pass, waits), this.#measureVolume(pass))
  }

  /**
   * Reports that a client could not connect to the owner's Postgres. The prober then suspects every member, because the
   * report names no member.
   */
  reportUnreachable(owner: string): void {
    for (const member of this.#membersOf(owner)) this.#prober.reportUnreachable(member)
  }

  /**
   * Whether the last answer of any member reports a successful client login. An earlier probe of the same run may have
   * made that login.
   */
  isLoginProved(owner: string): boolean {
    return this.#membersOf(owner).some(member => {
      const answer = this.#prober.get(member)?.answer
      return answer?.state === 'answered' && answer.login === 'succeeded'
    })
  }

  /** Deletes the facts of every member of an owner. */
  forget(owner: string): void {
    for (const member of this.#membersOf(owner))
      for (const facts of [this.#prober, this.#dataSize, this.#volumeUse, this.#growthRefusals]) facts.forget(member)
    this.drifts.forget(owner)
    this.#members.delete(owner)
  }

  async stop(): Promise<void> {
    await this.#prober.stop()
    await this.#dataSize.stop()
    await this.#volumeUse.stop()
  }

  #keyOf(owner: string, number: number): string {
    const key = memberKeyOf(owner, number)
    const members = this.#members.get(owner) ?? new Set()
    this.#members.set(owner, members.add(key))
    return key
  }

  /** Before the first pass over an owner, only its first member is known. */
  #membersOf(owner: string): readonly string[] {
    return [...(this.#members.get(owner) ?? [memberKeyOf(owner, firstMember)])]
  }

  #probe(pass: ProbedPass, waits: MemberWaits): number | undefined {
    const { memberKey: key, observed, access, target } = pass
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

  /**
   * Measures a volume that grows automatically. Does not wait for a probe, so that the volume's use is known soon after
   * the operator's failover.
   */
  #measureVolume({ memberKey: key, observed, access, target }: ProbedPass): number | undefined {
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
  { observed, passwords, authenticator, references, mcpState }: ProbedPass,
  { run, ready, probesWal, writeHangs }: PodFacts,
) => ({
  clientPath: clientPath(observed),
  run,
  ready,
  ...{ passwords, authenticator, references, mcpState },
  passwordVersion: observed.credentials?.state === 'readable' ? observed.credentials.passwordVersion : undefined,
  commits: !probesWal,
  isUrgent: writeHangs,
})

const issuedAt = (certificate: Served['certificate']): number | undefined =>
  certificate === undefined || certificate.state === 'absent' ? undefined : certificate.issuedAt

/**
 * If Postgres presents another certificate than the current one: the issue time of the current certificate, or 0 if
 * that time is unknown.
 */
function staleCertificate({ certificate, postgres }: ProbedPass['observed']): number | undefined {
  if (certificate === undefined || certificate.state === 'absent' || postgres?.answer?.state !== 'answered')
    return undefined
  const shown = postgres.answer.certificate
  return shown === undefined || shown === certificate.fingerprint ? undefined : (certificate.issuedAt ?? 0)
}
