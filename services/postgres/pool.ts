/**
 * The connections of one worker. Their number is limited, and they are opened on demand. A free connection goes to the
 * request that has waited longest.
 */
import type { Address } from './address.ts'
import { Connection } from './connection.ts'
import { AcquisitionTimeout, ConnectionFailure, Evicted } from './errors.ts'
import type { Step, Taken } from './run.ts'

export type PoolSettings = {
  readonly address: Address
  readonly size: number
  /** How long a request waits for a connection. */
  readonly acquisitionTimeoutMs: number
  /** The maximum age of a connection. */
  readonly maximumLifetimeMs: number
  /** The maximum idle time of a connection. */
  readonly maximumIdleMs: number
  /** How often the pool checks idle connections and opens the minimum. Default: 30 s. */
  readonly checkMs?: number
  /** If a run takes longer than this, the runs behind it on its connection are evicted. Default: 20. */
  readonly slowMs?: number
  /** How long a cancelled run may continue before its connection is closed. Default: 10 s. */
  readonly silenceMs?: number
}

/** A network that drops all packets reports no error for hours. */
const usualSilenceMs = 10_000

/** The default of `slowMs`. */
const usualSlowMs = 20
/** How long sharing pauses after a run was evicted. */
const aloneMs = 1_000

const unanswered = 'no server answered in time, and no connection is open'

type Waiter = { resolve(connection: Connection): void; reject(error: Error): void; timer: NodeJS.Timeout }
type Idle = { connection: Connection; since: number }

/** Counters for /metrics. */
export type PoolFigures = { size: number; open: number; idle: number; waiting: number; timeouts: number }

export class Pool {
  readonly #settings: PoolSettings
  readonly #now: () => number
  /** The most recently used connection is used next, so that surplus connections become idle for long. */
  readonly #idle: Idle[] = []
  readonly #waiters: Waiter[] = []
  readonly #open = new Set<Connection>()
  readonly #sweep: NodeJS.Timeout
  /** The connection that was shared last. */
  #shared: Connection | undefined
  #aloneUntil = Number.NEGATIVE_INFINITY
  #opening = 0
  /** How many connections stay open while they are unused. */
  #minimum = 0
  #timeouts = 0
  #isClosed = false

  constructor(settings: PoolSettings, now: () => number) {
    this.#settings = settings
    this.#now = now
    const checkMs = Math.min(settings.checkMs ?? 30_000, Math.max(1_000, settings.maximumIdleMs / 2))
    this.#sweep = setInterval(() => this.#check(), checkMs)
    this.#sweep.unref()
  }

  get figures(): PoolFigures {
    const { size } = this.#settings
    return {
      size,
      open: this.#open.size,
      idle: this.#idle.length,
      waiting: this.#waiters.length,
      timeouts: this.#timeouts,
    }
  }

  /**
   * Returns an idle connection. The caller calls `release` afterwards.
   * @throws AcquisitionTimeout, ConnectionFailure
   */
  acquire(): Promise<Connection> {
    // The pool opens no further connections.
    if (this.#isClosed) return Promise.reject(new AcquisitionTimeout())
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.connection.isUsable && !this.#isOld(idle.connection)) return Promise.resolve(idle.connection)
      this.#drop(idle.connection)
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        this.#timeouts++
        reject(this.#open.size === 0 ? new ConnectionFailure(unanswered) : new AcquisitionTimeout())
      }, this.#settings.acquisitionTimeoutMs)
      const waiter = { resolve, reject, timer }
      this.#waiters.push(waiter)
      this.#openMore()
    })
  }

  /**
   * Takes a connection back, for the next waiting request or as idle. Closes a connection with an open transaction or
   * run.
   */
  release(connection: Connection): void {
    if (!connection.isUsable || this.#isClosed || this.#isOld(connection)) {
      this.#drop(connection)
      return
    }
    const waiter = this.#nextWaiter()
    if (waiter === undefined) this.#idle.push({ connection, since: this.#now() })
    else waiter.resolve(connection)
  }

  /**
   * Runs a short, repeatable run on a connection that other runs may share. `expectedMs`: the run's expected duration
   * in Postgres.
   * @throws what `acquire` throws, DatabaseError, ConnectionFailure; Evicted if the run should be repeated on its own
   *   connection; the signal's reason
   */
  async runShared(steps: readonly Step[], prepared: boolean, expectedMs: number, signal: AbortSignal): Promise<Taken> {
    if (performance.now() < this.#aloneUntil) throw new Evicted()
    try {
      return await this.#runShared(steps, prepared, expectedMs, signal)
    } catch (error) {
      // If everything is slow, repeating runs would make it slower.
      if (error instanceof Evicted) this.#aloneUntil = performance.now() + aloneMs
      throw error
    }
  }

  async #runShared(steps: readonly Step[], prepared: boolean, expectedMs: number, signal: AbortSignal): Promise<Taken> {
    const isWaitedFor = this.#waiters.length > 0
    if (this.#shared?.acceptsShared(expectedMs, isWaitedFor)) {
      return this.#shared.runShared(steps, prepared, expectedMs, signal)
    }
    const connection = await this.acquire()
    this.#shared = connection
    connection.share(() => this.release(connection), this.#settings.slowMs ?? usualSlowMs)
    return connection.runShared(steps, prepared, expectedMs, signal)
  }

  /** Closes a connection that does not stop in time, and all idle connections: a silent network affects these, too. */
  closeLater(connection: Connection): NodeJS.Timeout {
    return setTimeout(() => {
      for (const idle of this.#idle.splice(0)) this.#drop(idle.connection)
      connection.close()
    }, this.#settings.silenceMs ?? usualSilenceMs)
  }

  /** Sets the minimum of open connections, at most the pool's size. If opening fails, the next check retries. */
  keep(minimum: number): void {
    this.#minimum = Math.min(minimum, this.#settings.size)
    this.#openSpares()
  }

  /** Refuses waiting requests and closes idle connections. Connections in use are closed when they are released. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#sweep)
    for (const { connection } of this.#idle.splice(0)) this.#drop(connection)
    for (let waiter = this.#nextWaiter(); waiter !== undefined; waiter = this.#nextWaiter()) {
      waiter.reject(new AcquisitionTimeout())
    }
  }

  #nextWaiter(): Waiter | undefined {
    const waiter = this.#waiters.shift()
    if (waiter !== undefined) clearTimeout(waiter.timer)
    return waiter
  }

  #isOld(connection: Connection): boolean {
    return this.#now() - connection.openedAt >= this.#settings.maximumLifetimeMs
  }

  #drop(connection: Connection): void {
    this.#open.delete(connection)
    connection.close()
    this.#openMore()
  }

  #check(): void {
    const now = this.#now()
    const isOver = ({ connection }: Idle) => !connection.isUsable || this.#isOld(connection)
    const isUnused = ({ since }: Idle) => now - since >= this.#settings.maximumIdleMs
    for (const idle of [...this.#idle]) {
      if (!isOver(idle) && !(isUnused(idle) && this.#open.size > this.#minimum)) continue
      this.#idle.splice(this.#idle.indexOf(idle), 1)
      this.#drop(idle.connection)
    }
    this.#openSpares()
  }

  #openSpares(): void {
    while (!this.#isClosed && this.#open.size + this.#opening < this.#minimum) {
      this.#opening++
      void this.#openOne(true)
    }
  }

  /** Opens connections for waiting requests, within the pool's size. */
  #openMore(): void {
    while (
      this.#opening < this.#waiters.length &&
      this.#open.size + this.#opening < this.#settings.size &&
      !this.#isClosed
    ) {
      this.#opening++
      void this.#openOne()
    }
  }

  /** `isSpare`: no request waits for the connection. */
  async #openOne(isSpare = false): Promise<void> {
    try {
      const connection = await Connection.open(this.#settings.address, this.#now, ended => this.#ended(ended))
      this.#opening--
      this.#open.add(connection)
      this.release(connection)
    } catch (error) {
      this.#opening--
      // Postgres has no free connection slots. The open connections serve all waiting requests in order.
      if (error instanceof ConnectionFailure && error.sqlState === '53300' && this.#open.size > 0) return
      if (isSpare) {
        // A request that arrived meanwhile relies on this connection attempt.
        this.#openMore()
        return
      }
      // The longest waiting request fails. Connection attempts for other requests continue.
      this.#nextWaiter()?.reject(error instanceof Error ? error : new Error(String(error)))
      this.#openMore()
    }
  }

  #ended(connection: Connection): void {
    if (!this.#open.delete(connection)) return
    const at = this.#idle.findIndex(idle => idle.connection === connection)
    if (at !== -1) this.#idle.splice(at, 1)
    this.#openMore()
  }
}
