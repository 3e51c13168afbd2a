/**
 * Leader election with a Lease, by client-go's rules. A candidate takes over only after it has observed an unchanged
 * record for the full lease duration. The leader stops, by its own clock, when its last success is older than the renew
 * deadline, which is shorter. So the old leader's signal has aborted before another process can begin. Every write
 * carries the resourceVersion on which it was decided.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { type Cluster, ClusterError, isClusterError, type Lease } from '../cluster/index.ts'
import { type Clock, sleep, systemClock } from '../cluster/informer/index.ts'
import { acquiredRecord, holderOf, ObservedHolder, releasedRecord } from './lease-record.ts'
import type { Metrics } from './metrics.ts'

export type LeaderOptions = {
  cluster: Cluster
  name: string
  namespace: string
  /** For users who read the Lease. A random part is added, so that no two runs have the same identity. */
  identity: string
  leaseMs?: number
  /** The leader steps down if it could not renew for this long. Shorter than `leaseMs`. */
  renewMs?: number
  retryMs?: number
  /**
   * The work of a leader. It must end when the signal aborts. `isLeader` reads the clock: pass both to `fenced`. If the
   * promise resolves early, the lease is kept. If it rejects, the lease is released, and the process is a candidate
   * again.
   */
  onStarted: (signal: AbortSignal, isLeader: () => boolean) => void | Promise<void>
  logger: Logger
  metrics?: Metrics | undefined
  random?: () => number
} & Partial<Clock>

export type LeaderElection = {
  readonly leading: boolean
  /** Aborts the work's signal, waits for the work to end (renewing meanwhile), and releases the lease. */
  stop(): Promise<void>
}

/** One term as leader. */
type Term = { controller: AbortController; work: Promise<void>; isDone: boolean }

const tooLate = 'the lease could not be renewed in time'

/** @throws RangeError for unsafe durations: retryMs < renewMs < leaseMs must be true */
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
  /** The Lease after this process's last write. Undefined if unknown. */
  #written: Lease | undefined
  /** When the last successful request was sent. The term counts from it. */
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

  /** One attempt to acquire or renew the lease. Returns true if this process holds it now. */
  async #attempt(): Promise<boolean> {
    try {
      if (this.#written) {
        await this.#write(this.#written)
        return true
      }
      const { namespace, name, cluster } = this.#options
      const lease = await this.#bounded(cluster.get('Lease', { namespace, name }))
      // If another client deleted the Lease during this term, it is created again. If the Lease has another holder,
      // this term ends at once.
      const ourTerm = lease ? holderOf(lease) === this.#identity : !this.#overdue()
      if (!ourTerm) {
        this.#renewedAt = Number.NEGATIVE_INFINITY
        this.#endTerm(`the lease is held by ${holderOf(lease) || 'no candidate'}`)
        if (this.#other.respects(lease, this.#leaseMs, this.#clock.now())) return false
      }
      await this.#write(lease)
      return true
    } catch (error) {
      if (isClusterError(error, 'Conflict', 'AlreadyExists')) this.#logger.debug('the lease changed in the meantime')
      else this.#logger.warn({ err: error }, 'cannot renew or acquire the lease, retrying')
      return false
    }
  }

  async #write(previous: Lease | undefined): Promise<void> {
    const { cluster, name, namespace } = this.#options
    const sentAt = this.#clock.now()
    const spec = acquiredRecord(previous, this.#identity, this.#leaseMs, sentAt)
    // Even if this write fails, the Lease on which it was decided may no longer be current.
    this.#written = undefined
    this.#written = await this.#bounded(
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

  /** A request that hangs must not block the election. The next attempt reads the effect of a late response. */
  async #bounded<T>(request: Promise<T>): Promise<T> {
    const timeUp = Promise.withResolvers<never>()
    const cancel = this.#clock.after(this.#renewMs, () =>
      timeUp.reject(new ClusterError('Unavailable', 'no response in time')),
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
    const term: Term = { controller, work: Promise.resolve(), isDone: false }
    const isLeader = () => {
      if (!controller.signal.aborted && this.#overdue()) this.#endTerm(tooLate)
      return !controller.signal.aborted
    }
    const work = async () => {
      try {
        await this.#options.onStarted(controller.signal, isLeader)
      } catch (error) {
        this.#logger.error({ err: error }, 'the work of the leader failed')
        this.#endTerm('the work of the leader failed')
      } finally {
        term.isDone = true
      }
    }
    // After the term is stored, because the work may call `isLeader` at once.
    term.work = Promise.resolve().then(work)
    return term
  }

  #endTerm(reason: string): void {
    if (!this.#term || this.#term.controller.signal.aborted) return
    this.#logger.warn({ reason }, 'no longer leading')
    this.#options.metrics?.leading(this.#options.name, false)
    this.#term.controller.abort(new ClusterError('Unavailable', `leadership ended: ${reason}`))
  }

  /**
   * Renews the lease until the work of an ended term has ended, as long as this process holds the lease. Then releases
   * it.
   */
  async #closeTerm(term: Term): Promise<void> {
    for (let waits = 0; !term.isDone; waits++) {
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
    const written = this.#written
    if (!written || this.#overdue()) return
    this.#written = undefined
    this.#renewedAt = Number.NEGATIVE_INFINITY
    try {
      const spec = releasedRecord(written, this.#clock.now())
      await this.#bounded(this.#options.cluster.replace('Lease', { ...written, spec }))
    } catch (error) {
      this.#logger.warn({ err: error }, 'cannot release the lease; it will expire')
    }
  }

  /**
   * Waits until the next attempt, or until an attempt is needed at once. Candidates spread their attempts over time; a
   * leader does not.
   */
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
