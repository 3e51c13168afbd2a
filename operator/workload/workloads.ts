/**
 * The Postgres instances of one kind of owner: what is learnt of them between the passes (answers, sizes, refusals,
 * ports), and the doing of what a pass has planned. It holds nothing that another process could not find out again.
 */
import type { Logger } from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import { systemNamespace } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { createDriftBook } from '../children/drifts.ts'
import { createTurns, inTurn } from '../endpoint/certificate-turns.ts'
import { createGatewayReports } from '../endpoint/gateway-reports.ts'
import { createPortAllocator } from '../endpoint/port-allocator.ts'
import type { InstallationKeys } from '../keys.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { createSizes } from '../member/postgres/data-size.ts'
import { nextProbe } from '../member/postgres/next-probe.ts'
import { createProber } from '../member/postgres/prober.ts'
import { clientsWay, targetAt } from '../member/postgres/target.ts'
import { createGrowthBook } from '../member/storage/growths.ts'
import { createVolumeUse } from '../member/storage/volume-use.ts'
import type { Executor, Pass } from './act.ts'
import type { Learnt, Observation } from './observe.ts'
import type { Observed } from './observed.ts'

type WorkloadOptions = {
  /** Every write goes through it. */
  cluster: Cluster
  caches: Caches
  keys: () => InstallationKeys
  /** How Postgres is reached, under an authority. */
  accessFor: (authority: NonNullable<InstallationKeys['authority']>) => PostgresAccess
  /** So many have their certificate issued anew at a time, where all are due. */
  certificatesAtOnce: number
  /** There is something new to be known of this owner's instance. */
  enqueue: (key: string) => void
  logger: Logger
  now: () => number
}

/** What a plan says about when its instance is to be looked at again. `wakeAt`: ms since the epoch. */
type Waits = {
  awaitsPostgres: boolean
  awaitsGateways: boolean
  configurationDigest: string | undefined
  wakeAt: number | undefined
}

type Workloads = {
  readonly executor: Executor
  /** What was learnt before the pass. */
  learnt(key: string): Learnt
  /** What was observed, with whether it is the instance's turn to have its certificate issued. */
  inTurn<O extends Observed>(key: string, observed: O): O
  /** What a pass does its actions with. */
  pass<O extends Observed>(
    key: string,
    observation: Observation<O>,
    keys: InstallationKeys,
    signal: AbortSignal,
  ): Pass & Observation<O>
  /** Asks for a look at Postgres where it is due. @returns in how many ms to pass again; undefined: when something changes */
  wakeAfter(pass: Pass, waits: Waits): number | undefined
  /** Whoever cannot reach this Postgres says so. */
  suspect(key: string): void
  /** These are all that gateways cannot connect to, by the Leases of the moment. */
  reported(listed: ReadonlySet<string>): void
  forget(key: string): void
  stop(): Promise<void>
}

/** While gateways are waited for, it is looked again even if none says anything: one may have died. */
const acknowledgementMs = 5_000

export function createWorkloads(options: WorkloadOptions): Workloads {
  const { cluster, caches, keys, accessFor, certificatesAtOnce, enqueue, logger, now } = options
  const startedAt = now()
  const prober = createProber({ now, onAnswer: enqueue, logger })
  const sizes = createSizes({ now, onMeasured: enqueue, logger })
  const use = createVolumeUse({ now, onMeasured: enqueue, logger })
  const isTaken = (name: string) => caches.configMaps.get({ namespace: systemNamespace, name }) !== undefined
  const growths = createGrowthBook(now)
  const drifts = createDriftBook(now)
  const reports = createGatewayReports(key => {
    const answer = prober.get(key)?.answer
    return answer?.state === 'answered' && answer.login === 'succeeded'
  }, now)
  const ports = createPortAllocator(isTaken, now)
  const turns = createTurns({ atOnce: certificatesAtOnce, onTurn: enqueue })

  const probe = (
    { key, observed, access, target, passwords }: Pass,
    { awaitsPostgres, configurationDigest }: Waits,
  ): number | undefined => {
    const { pod, credentials } = observed
    if (pod === undefined || target === undefined || access === undefined || pod.terminating) return undefined
    const { run, ready } = pod
    const facts = prober.get(key)
    if (facts?.run === run && facts.answer?.state === 'answered')
      sizes.request({ key, access, target, run, walPosition: facts.answer.walPosition })
    const at = nextProbe({
      key,
      facts,
      pod,
      awaited: awaitsPostgres,
      certificateIssuedAt: staleCertificate(observed),
      latestCertificateAt: observed.certificate.state === 'absent' ? undefined : observed.certificate.issuedAt,
      suspectedAt: prober.suspectedAt(key),
      operatorStartedAt: startedAt,
      now: now(),
    })
    if (at > now()) return at
    prober.request({
      key,
      access,
      target,
      clientsWay: clientsWay(observed),
      run,
      ready,
      passwords,
      mark: credentials.state === 'readable' ? credentials.mark : undefined,
      commits: !pod.probesWal,
      configuration: configurationDigest,
      isUrgent: pod.writeHangs,
    })
    return undefined
  }

  /** Of a volume that grows by itself. It does not wait for a probe: after a failover it is known soon. */
  const measureUse = ({ key, observed, access, target }: Pass): number | undefined => {
    const { instance, pod } = observed
    if (instance.spec.storage?.autogrow === undefined) {
      use.forget(key)
      return undefined
    }
    if (pod?.address === undefined || pod.terminating || access === undefined || target === undefined) return undefined
    return use.request({ key, access, target, run: pod.run })
  }

  return {
    executor: { cluster, ports, growths, drifts, now, keys, outdateProbe: prober.outdate },
    learnt: key => ({
      facts: prober.get(key),
      dataBytes: sizes.get(key),
      volumeUse: use.get(key),
      growthRefusal: growths.refusalOf(key),
      drifts: drifts.of(key),
      isCutOff: reports.isCutOff(key),
    }),
    inTurn: (key, observed) => inTurn(turns, key, observed),
    pass: (key, observation, currentKeys, signal) => {
      const { owner, pod } = observation.observed
      const { authority } = currentKeys
      const address = pod?.address
      return {
        ...observation,
        key,
        keys: currentKeys,
        access: authority && accessFor(authority),
        target: address !== undefined && owner && authority ? targetAt(owner, address, authority) : undefined,
        signal,
      }
    },
    wakeAfter: (pass, waits) => {
      const wakes = [
        waits.wakeAt,
        waits.awaitsGateways ? now() + acknowledgementMs : undefined,
        probe(pass, waits),
        measureUse(pass),
      ]
      const known = wakes.filter(at => at !== undefined)
      return known.length === 0 ? undefined : Math.max(0, Math.min(...known) - now())
    },
    suspect: prober.suspect,
    reported: listed => {
      for (const key of reports.heard(listed)) enqueue(key)
    },
    forget: key => {
      prober.forget(key)
      sizes.forget(key)
      use.forget(key)
      growths.forget(key)
      drifts.forget(key)
      reports.forget(key)
      turns.leave(key)
    },
    stop: async () => {
      turns.stop()
      await prober.stop()
      await sizes.stop()
      await use.stop()
    },
  }
}

/** When the certificate was issued that Postgres should show and does not. */
function staleCertificate({ certificate, postgres }: Observed): number | undefined {
  if (certificate.state === 'absent' || postgres?.answer?.state !== 'answered') return undefined
  const shown = postgres.answer.certificate
  return shown === undefined || shown === certificate.fingerprint ? undefined : (certificate.issuedAt ?? 0)
}
