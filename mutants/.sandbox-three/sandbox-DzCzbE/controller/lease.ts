/**
 * Leader election over a Lease, with client-go's rules. A candidate takes over only after it has itself seen an unchanged
 * record for the whole lease duration; the leader stops, by its own clock, when its last success is older than the renew
 * deadline, which is shorter. So the old leader's signal has aborted before anybody else can begin. Every write carries
 * the resourceVersion it was decided on.
 */
// @ts-nocheck

import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { type Cluster, ClusterError, isClusterError, type Lease } from '../cluster/index.ts'
import { type Clock, sleep, systemClock } from '../cluster/informer/index.ts'
import { heldRecord, holderOf, ObservedHolder, releasedRecord } from './lease-record.ts'
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
  /** Aborts the work's signal, waits for the work to end (renewing all the while), and gives the lease back. */
  stop(): Promise<void>
}

/** One time of being the leader. */
type Term = { controller: AbortController; work: Promise<void>; settled: boolean }

const tooLate = 'the lease could not be renewed in time'

/** @throws RangeError where the durations could not be safe: retryMs < renewMs < leaseMs must hold */
export function runWithLeaderLease(options: LeaderOptions): LeaderElection {
  return new Election(options)
}

class Election implements LeaderElection {
  readonly #options: LeaderOptions
  readonly #clock: Clock
  readonly #leaseMs: number
  readonly #renewMs: number
  readonly #retryMs: number
  readonly #identity: string
  readonly #logger: Logger
  readonly #stopping = new AbortController()
  readonly #other = new ObservedHolder()
  /** The Lease as our own last write left it; none where that is not known. */
  #ours: Lease | undefined
  /** When the request was sent whose success we live on. */
  #renewedAt = Number.NEGATIVE_INFINITY
  #term: Term | undefined
  #cancelDeadline: (() => void) | undefined
  readonly #running: Promise<void>

  constructor(options: LeaderOptions) {
    const { name, namespace, leaseMs = 15_000, renewMs = 10_000, retryMs = 2_000 } = options
    if (!(retryMs < renewMs && renewMs < leaseMs)) throw new RangeError('leader lease: retryMs < renewMs < leaseMs')
    this.#options = options
    this.#leaseMs = leaseMs
    this.#renewMs = renewMs
    this.#retryMs = retryMs
    this.#clock = { now: options.now ?? systemClock.now, after: options.after ?? systemClock.after }
    this.#identity = `${options.identity}_${randomUUID()}`
    this.#logger = options.logger.child({ lease: `${namespace}/${name}`, identity: this.#identity })
    options.metrics?.leading(name, false)
    this.#running = this.#run()
  }

  get leading(): boolean {
    return this.#term !== undefined && !this.#term.controller.signal.aborted && !this.#overdue()
  }

  stop(): Promise<void> {
    this.#stopping.abort()
    return this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const acquired = await this.#attempt()
      if (acquired && !this.#overdue() && !this.#stopping.signal.aborted) this.#term ??= this.#beginTerm()
      if (this.#term?.controller.signal.aborted) await this.#closeTerm(this.#term)
      await this.#pause()
    }
    this.#endTerm('stopped')
    if (this.#term) await this.#closeTerm(this.#term)
    else await this.#release()
  }

  /** One attempt to get or keep the lease; true where it is ours now. */
  async #attempt(): Promise<boolean> {
    try {
      if (this.#ours) {
        await this.#write(this.#ours)
        return true
      }
      const { namespace, name, cluster } = this.#options
      const lease = await this.#bounded(cluster.get('Lease', { namespace, name }))
      // A Lease that somebody deleted while we hold it is made again; one that is another's ends our term at once.
      const ourTerm = lease ? holderOf(lease) === this.#identity : !this.#overdue()
      if (!ourTerm) {
        this.#renewedAt = Number.NEGATIVE_INFINITY
        this.#endTerm(`the lease is held by ${holderOf(lease) || 'nobody'}`)
        if (this.#other.respects(lease, this.#leaseMs, this.#clock.now())) return false
      }
      await this.#write(lease)
      return true
    } catch (error) {
      if (isClusterError(error, 'Conflict', 'AlreadyExists')) this.#logger.debug('the lease changed meanwhile')
      else this.#logger.warn({ err: error }, 'cannot renew or acquire the lease, trying again')
      return false
    }
  }

  async #write(previous: Lease | undefined): Promise<void> {
    const { cluster, name, namespace } = this.#options
    const sentAt = this.#clock.now()
    const spec = heldRecord(previous, this.#identity, this.#leaseMs, sentAt)
    // Whatever becomes of this write, the Lease it was decided on is no longer known to be current.
    this.#ours = undefined
    this.#ours = await this.#bounded(
      previous
        ? cluster.replace('Lease', { ...previous, spec })
        : cluster.create('Lease', {
            apiVersion: 'coordination.k8s.io/v1',
            kind: 'Lease',
            metadata: { name, namespace },
            spec,
          }),
    )
    this.#renewedAt = sentAt
    this.#other.forget()
    this.#watchDeadline()
  }

  /** A request that hangs must not hang the election; what a late answer did is found out by the next look. */
  async #bounded<T>(request: Promise<T>): Promise<T> {
    const timeUp = Promise.withResolvers<never>()
    const cancel = this.#clock.after(this.#renewMs, () =>
      timeUp.reject(new ClusterError('Unavailable', 'no answer in time')),
    )
    try {
      return await Promise.race([request, timeUp.promise])
    } finally {
      cancel()
    }
  }

  #overdue(): boolean {
    return this.#clock.now() >= this.#renewedAt + this.#renewMs
  }

  #watchDeadline(): void {
    this.#cancelDeadline?.()
    this.#cancelDeadline = this.#clock.after(this.#renewedAt + this.#renewMs - this.#clock.now(), () => {
      if (this.#overdue()) this.#endTerm(tooLate)
      else this.#watchDeadline()
    })
  }

  #beginTerm(): Term {
    this.#logger.info('leading')
    this.#options.metrics?.leading(this.#options.name, true)
    const controller = new AbortController()
    const term: Term = { controller, work: Promise.resolve(), settled: false }
    const held = () => {
      if (!controller.signal.aborted && this.#overdue()) this.#endTerm(tooLate)
      return !controller.signal.aborted
    }
    const work = async () => {
      try {
        await this.#options.onStarted(controller.signal, held)
      } catch (error) {
        this.#logger.error({ err: error }, 'the work of the leader failed')
        this.#endTerm('its work failed')
      } finally {
        term.settled = true
      }
    }
    // Not before the term is known: the work may ask at once whether it is held.
    term.work = Promise.resolve().then(work)
    return term
  }

  #endTerm(reason: string): void {
    if (!this.#term || this.#term.controller.signal.aborted) return
    this.#logger.warn({ reason }, 'no longer leading')
    this.#options.metrics?.leading(this.#options.name, false)
    this.#term.controller.abort(new ClusterError('Unavailable', `leadership ended: ${reason}`))
  }

  /** Keeps the lease, where it is still ours, until the work of an ended term has ended; then gives it back. */
  async #closeTerm(term: Term): Promise<void> {
    for (let waits = 0; !term.settled; waits++) {
      if (!this.#overdue()) await this.#attempt()
      const woken = new AbortController()
      await Promise.race([term.work, sleep(this.#clock, this.#retryMs, woken.signal)])
      woken.abort()
      if (waits === 5) this.#logger.warn('work of the lost leadership is still running')
    }
    this.#term = undefined
    await this.#release()
  }

  async #release(): Promise<void> {
    this.#cancelDeadline?.()
    const ours = this.#ours
    if (!ours || this.#overdue()) return
    this.#ours = undefined
    this.#renewedAt = Number.NEGATIVE_INFINITY
    try {
      const spec = releasedRecord(ours, this.#clock.now())
      await this.#bounded(this.#options.cluster.replace('Lease', { ...ours, spec }))
    } catch (error) {
      this.#logger.warn({ err: error }, 'cannot release the lease; it will expire')
    }
  }

  /** Until the next attempt, or until something has to be done at once. Candidates spread out; a leader does not. */
  async #pause(): Promise<void> {
    const { random = Math.random } = this.#options
    const ends = [this.#stopping.signal, ...(this.#term ? [this.#term.controller.signal] : [])]
    const woken = new AbortController()
    const wake = () => woken.abort()
    if (ends.some(({ aborted }) => aborted)) wake()
    for (const end of ends) end.addEventListener('abort', wake, { once: true })
    await sleep(this.#clock, this.#term ? this.#retryMs : this.#retryMs * (1 + random() / 5), woken.signal)
    for (const end of ends) end.removeEventListener('abort', wake)
  }
}
