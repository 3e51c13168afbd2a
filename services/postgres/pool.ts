/** The connections of one worker: at most so many, made when they are needed, given to who has waited longest. */
import type { Address } from './address.ts'
import { Connection } from './connection.ts'
import { AcquisitionTimeout, ConnectionFailure, Displaced } from './errors.ts'
import type { Step, Taken } from './run.ts'

export type PoolSettings = {
  readonly address: Address
  readonly size: number
  /** How long a request waits for a connection. */
  readonly acquisitionTimeoutMs: number
  /** How old a connection may get. */
  readonly maximumLifetimeMs: number
  /** How long one is kept that nobody uses. */
  readonly maximumIdleMs: number
  /** How often idle connections are checked, and those below the minimum are opened; 30 s at most where it is not given. */
  readonly checkMs?: number
  /** What takes longer has others behind it on its connection go elsewhere; 20 where it is not given. */
  readonly slowMs?: number
  /** How long what is to stop may go on before its connection is given up; 10 s where it is not given. */
  readonly silenceMs?: number
}

/** A network that drops all packets says nothing, for hours. */
const usualSilenceMs = 10_000

/** For what shares a connection. */
const usualSlowMs = 20
/** For so long nothing is shared after something had to go elsewhere. */
const aloneMs = 1_000

type Waiter = { resolve(connection: Connection): void; reject(error: Error): void; timer: NodeJS.Timeout }
type Idle = { connection: Connection; since: number }

/** What is counted for /metrics. */
export type PoolFigures = { size: number; open: number; idle: number; waiting: number; timeouts: number }

export class Pool {
  readonly #settings: PoolSettings
  readonly #now: () => number
  /** The one used last is the next to be used, so that those in surplus get old. */
  readonly #idle: Idle[] = []
  readonly #waiters: Waiter[] = []
  readonly #open = new Set<Connection>()
  readonly #sweep: NodeJS.Timeout
  /** That was shared last. */
  #shared: Connection | undefined
  #aloneUntil = Number.NEGATIVE_INFINITY
  #opening = 0
  /** So many are kept open, also while nobody uses them. */
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
   * A connection that is idle; give it back by `release`.
   * @throws AcquisitionTimeout, ConnectionFailure
   */
  acquire(): Promise<Connection> {
    // None is opened any more.
    if (this.#isClosed) return Promise.reject(new AcquisitionTimeout())
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.connection.isUsable && !this.#isOld(idle.connection)) return Promise.resolve(idle.connection)
      this.#drop(idle.connection)
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        this.#timeouts++
        reject(new AcquisitionTimeout())
      }, this.#settings.acquisitionTimeoutMs)
      const waiter = { resolve, reject, timer }
      this.#waiters.push(waiter)
      this.#openMore()
    })
  }

  /** Takes a connection back: to the next who waits, or to rest. One that is not idle is dropped. */
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
   * Runs what is short, and can be run again, on a connection that it may share with others of its kind. Postgres is expected to take `expectedMs` for it.
   * @throws what `acquire` does, DatabaseError, ConnectionFailure; Displaced where it is to be run by itself; what the signal is aborted with
   */
  async runShared(steps: readonly Step[], prepared: boolean, expectedMs: number, signal: AbortSignal): Promise<Taken> {
    if (performance.now() < this.#aloneUntil) throw new Displaced()
    try {
      return await this.#runShared(steps, prepared, expectedMs, signal)
    } catch (error) {
      // Where everything is slow, to ask twice would make it slower.
      if (error instanceof Displaced) this.#aloneUntil = performance.now() + aloneMs
      throw error
    }
  }

  async #runShared(steps: readonly Step[], prepared: boolean, expectedMs: number, signal: AbortSignal): Promise<Taken> {
    const isWaitedFor = this.#waiters.length > 0
    if (this.#shared?.hasRoomFor(expectedMs, isWaitedFor)) {
      return this.#shared.runShared(steps, prepared, expectedMs, signal)
    }
    const connection = await this.acquire()
    this.#shared = connection
    connection.share(() => this.release(connection), this.#settings.slowMs ?? usualSlowMs)
    return connection.runShared(steps, prepared, expectedMs, signal)
  }

  /** Ends a connection that does not stop in time, and those that are idle: what lies between has become silent, and they would be as well. */
  giveUpLater(connection: Connection): NodeJS.Timeout {
    return setTimeout(() => {
      for (const idle of this.#idle.splice(0)) this.#drop(idle.connection)
      connection.close()
    }, this.#settings.silenceMs ?? usualSilenceMs)
  }

  /** Keeps at least so many connections open from now on, within the size. One that cannot be opened is tried again at the next check. */
  keep(minimum: number): void {
    this.#minimum = Math.min(minimum, this.#settings.size)
    this.#openSpares()
  }

  /** Refuses who waits and ends what is idle; what is in use ends when it is given back. */
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

  /** Opens connections for those who wait, within the size. */
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

  /** `isSpare`: nobody waits for it. */
  async #openOne(isSpare = false): Promise<void> {
    try {
      const connection = await Connection.open(this.#settings.address, this.#now, ended => this.#ended(ended))
      this.#opening--
      this.#open.add(connection)
      this.release(connection)
    } catch (error) {
      this.#opening--
      // Postgres has no room for more: those that are open serve all who wait, one after the other.
      if (error instanceof ConnectionFailure && error.sqlState === '53300' && this.#open.size > 0) return
      if (isSpare) {
        // A request that has come meanwhile has counted on this one.
        this.#openMore()
        return
      }
      // Who has waited longest is told; the others' own attempts go on.
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
