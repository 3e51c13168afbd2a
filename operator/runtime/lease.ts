/**
 * Leader election over a Lease, with client-go's rules. Nobody's clock is compared with another's: a candidate takes over
 * only after it has itself seen an unchanged record for the whole lease duration; the leader stops, by its own clock, when
 * its last success is older than the renew deadline, which is shorter. So the old leader's signal has aborted before
 * anybody else can begin. Every write carries the resourceVersion it was decided on.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { type Cluster, ClusterError, isClusterError, type Lease } from '../../cluster/index.ts'
import { type Clock, sleep, systemClock } from '../../cluster/informer/index.ts'
import type { Metrics } from './metrics.ts'

export type LeaderOptions = {
  cluster: Cluster
  name: string
  namespace: string
  /** For people who read the Lease; a random part is added, so that no two runs ever share one. */
  identity: string
  leaseMs?: number
  /** The leader gives up when it could not renew for so long. Shorter than `leaseMs`. */
  renewMs?: number
  retryMs?: number
  /**
   * The work of a leader; it ends when the signal aborts. `held()` looks at the clock itself: pass both to `fenced`. Where
   * the promise resolves early, the lease is kept; where it rejects, the lease is given back and contended for again.
   */
  onStarted: (signal: AbortSignal, held: () => boolean) => void | Promise<void>
  logger: Logger
  metrics?: Metrics | undefined
  random?: () => number
} & Partial<Clock>

export type LeaderElection = {
  readonly leading: boolean
  /** Aborts the work's signal, waits for the work to end, and gives the lease back. */
  stop(): Promise<void>
}

/** One time of being the leader. */
type Term = { controller: AbortController; work: Promise<void>; settled: boolean; failed: boolean }

const microTime = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z')

export function runWithLeaderLease(options: LeaderOptions): LeaderElection {
  const { cluster, name, namespace, onStarted, metrics, random = Math.random } = options
  const { leaseMs = 15_000, renewMs = 10_000, retryMs = 2_000 } = options
  if (!(retryMs < renewMs && renewMs < leaseMs)) throw new RangeError('leader lease: retryMs < renewMs < leaseMs')
  const clock: Clock = { now: options.now ?? systemClock.now, after: options.after ?? systemClock.after }
  const identity = `${options.identity}_${randomUUID()}`
  const logger = options.logger.child({ lease: `${namespace}/${name}`, identity })
  const stopping = new AbortController()

  /** What was last seen of another holder, and when, by our clock, it last changed. */
  let observed: { record: string; at: number; durationMs: number } | undefined
  /** The Lease as our own last write left it. */
  let ours: Lease | undefined
  /** When the request was sent whose success we live on. */
  let renewedAt = Number.NEGATIVE_INFINITY
  let term: Term | undefined
  let cancelDeadline: (() => void) | undefined

  const endTerm = (reason: string) => {
    if (!term || term.controller.signal.aborted) return
    logger.warn({ reason }, 'leading no more')
    metrics?.leading(name, false)
    term.controller.abort(new ClusterError('Unavailable', `leadership ended: ${reason}`))
  }
  const overdue = () => clock.now() >= renewedAt + renewMs
  const watchDeadline = () => {
    cancelDeadline?.()
    cancelDeadline = clock.after(renewedAt + renewMs - clock.now(), () => {
      if (overdue()) endTerm('the lease could not be renewed in time')
      else watchDeadline()
    })
  }

  /** A request that hangs must not hang the election; what a late answer did is found out by the next look. */
  const bounded = async <T>(request: Promise<T>): Promise<T> => {
    const timeUp = Promise.withResolvers<never>()
    const cancel = clock.after(renewMs, () => timeUp.reject(new ClusterError('Unavailable', 'no answer in time')))
    try {
      return await Promise.race([request, timeUp.promise])
    } finally {
      cancel()
    }
  }

  const drafted = (now: number, previous: Lease | undefined) => {
    const same = previous?.spec?.holderIdentity === identity
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(leaseMs / 1000),
      acquireTime: same ? (previous?.spec?.acquireTime ?? microTime(now)) : microTime(now),
      renewTime: microTime(now),
      leaseTransitions: previous ? (previous.spec?.leaseTransitions ?? 0) + (same ? 0 : 1) : 0,
    }
  }

  const write = async (previous: Lease | undefined): Promise<void> => {
    const sentAt = clock.now()
    const spec = drafted(sentAt, previous)
    ours = undefined
    ours = previous
      ? await bounded(cluster.replace('Lease', { ...previous, spec }))
      : await bounded(
          cluster.create('Lease', {
            apiVersion: 'coordination.k8s.io/v1',
            kind: 'Lease',
            metadata: { name, namespace },
            spec,
          }),
        )
    renewedAt = sentAt
    observed = undefined
  }

  /** Whether a record that is not ours still has to be respected. */
  const respected = (lease: Lease | undefined): boolean => {
    if (lease) {
      const { holderIdentity, renewTime, acquireTime, leaseTransitions, leaseDurationSeconds = 0 } = lease.spec ?? {}
      if (!holderIdentity) return false
      const record = JSON.stringify([holderIdentity, renewTime, acquireTime, leaseTransitions])
      if (observed?.record !== record)
        observed = { record, at: clock.now(), durationMs: Math.max(leaseMs, leaseDurationSeconds * 1000) }
    }
    // A Lease that somebody deleted does not end the term of the holder seen in it.
    return observed !== undefined && clock.now() < observed.at + observed.durationMs
  }

  /** One attempt to get or keep the lease; true where it is ours now. */
  const attempt = async (): Promise<boolean> => {
    try {
      if (ours) {
        await write(ours)
        return true
      }
      const lease = await bounded(cluster.get('Lease', { namespace, name }))
      // A Lease that somebody deleted while we hold it is made again; one that is another's ends our term at once.
      const ourTerm = lease ? lease.spec?.holderIdentity === identity : !overdue()
      if (!ourTerm) {
        renewedAt = Number.NEGATIVE_INFINITY
        endTerm(`the lease is held by ${lease?.spec?.holderIdentity || 'nobody'}`)
        if (respected(lease)) return false
      }
      await write(lease)
      return true
    } catch (error) {
      if (isClusterError(error, 'Conflict', 'AlreadyExists')) logger.debug('the lease changed meanwhile')
      else logger.warn({ err: error }, 'cannot renew or acquire the lease, trying again')
      return false
    }
  }

  const beginTerm = (): Term => {
    logger.info('leading')
    metrics?.leading(name, true)
    const controller = new AbortController()
    const begun: Term = { controller, work: Promise.resolve(), settled: false, failed: false }
    const held = () => {
      if (!controller.signal.aborted && overdue()) endTerm('the lease could not be renewed in time')
      return !controller.signal.aborted
    }
    begun.work = (async () => onStarted(controller.signal, held))()
      .catch(error => {
        begun.failed = true
        logger.error({ err: error }, 'the work of the leader failed')
        endTerm('its work failed')
      })
      .finally(() => {
        begun.settled = true
      })
    return begun
  }

  const release = async (): Promise<void> => {
    if (!ours || overdue()) return
    const spec = { ...ours.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock.now()) }
    try {
      await bounded(cluster.replace('Lease', { ...ours, spec }))
    } catch (error) {
      logger.warn({ err: error }, 'cannot give the lease back; it runs out by itself')
    }
    ours = undefined
    renewedAt = Number.NEGATIVE_INFINITY
  }

  /** Renews until the work of an ended term has ended, where the lease is still ours; then gives it back. */
  const closeTerm = async (closing: Term): Promise<void> => {
    let waited = false
    while (!closing.settled) {
      if (!overdue()) await attempt()
      await Promise.race([closing.work, sleep(clock, retryMs)])
      if (!closing.settled && !waited) {
        logger.warn('waiting for the work of the ended term')
        waited = true
      }
    }
    cancelDeadline?.()
    await release()
  }

  const run = async () => {
    for (;;) {
      const acquired = !stopping.signal.aborted && (await attempt())
      if (acquired && !overdue()) {
        watchDeadline()
        if (!term && !stopping.signal.aborted) term = beginTerm()
      }
      if (term && stopping.signal.aborted) endTerm('stopped')
      if (term?.controller.signal.aborted) {
        await closeTerm(term)
        term = undefined
      }
      if (stopping.signal.aborted) break
      await sleepBetween()
    }
    cancelDeadline?.()
    await release()
  }

  const sleepBetween = async () => {
    const woken = new AbortController()
    const wake = () => woken.abort()
    stopping.signal.addEventListener('abort', wake, { once: true })
    term?.controller.signal.addEventListener('abort', wake, { once: true })
    await sleep(clock, term ? retryMs : retryMs * (1 + random() / 5), woken.signal)
    stopping.signal.removeEventListener('abort', wake)
    term?.controller.signal.removeEventListener('abort', wake)
  }

  const running = run()
  return {
    get leading() {
      return term !== undefined && !term.controller.signal.aborted && !overdue()
    },
    stop() {
      stopping.abort()
      return running
    },
  }
}
