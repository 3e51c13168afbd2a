/**
 * Limits connections that have not logged in. Only a few per address and per database reach Postgres at once; the
 * others wait in a queue for some seconds. So silent clients use only a few slots, each until Postgres's
 * authentication_timeout. A pool that opens all its connections at once still gets all of them. The last slots of a
 * database are for addresses without a slot, so that two silent addresses cannot use all slots.
 */
import type { Socket } from 'node:net'
import { LoginProgress } from './login-progress.ts'

export type LoginLimits = {
  /** The maximum number of concurrent logins to one route: of one address, and of all addresses. */
  perAddress: number
  perRoute: number
  /** How many slots of a route are reserved for addresses without a slot. */
  reservedPerRoute: number
  /** The maximum number of connections of one address to one route that wait in the queue. */
  waitingPerAddress: number
  /** The maximum number of connections of one address, to all routes together, that wait in the queue. */
  waitingPerAddressInAll: number
  /** The maximum number of connections of one address, to all routes together, that have sent nothing yet. */
  silentPerAddress: number
  /** How long a connection waits in the queue, in milliseconds. */
  waitMs: number
  /**
   * After this time, a connection that is still open has logged in, because Postgres closes the others after 10 s. In
   * milliseconds, with a margin.
   */
  slotMs: number
}

export const loginLimits: LoginLimits = {
  perAddress: 6,
  perRoute: 12,
  reservedPerRoute: 4,
  waitingPerAddress: 250,
  waitingPerAddressInAll: 1_000,
  silentPerAddress: 500,
  waitMs: 8_000,
  slotMs: 12_000,
}

/** One connection between its arrival and its login. */
export type Login = {
  /** Records the first bytes; the connection then waits. Returns false if too many connections of its address wait. */
  speak(): boolean
  /** Waits for a slot. Resolves to false if the connection got no slot in time. */
  begin(): Promise<boolean>
  /** Frees the slot: the connection has logged in or is closed. */
  end(): void
}

/** Connections that are logging in, and connections that are silent or wait in the queue. */
export type LoginCount = { underway: number; waiting: number }
/** Counts by routed port. Ports without such connections are omitted. */
export type LoginCounts = ReadonlyMap<number, LoginCount>

export type Logins = {
  /**
   * `evict` closes the connection. It is called if too many connections of its address are silent and this is the
   * oldest.
   */
  arrive(port: number, address: string, evict: () => void): Login
  count(): LoginCount
  countByPort(): LoginCounts
}

/** Counts by key. */
class Counter {
  readonly #counts = new Map<string, number>()
  total = 0
  of(key: string): number {
    return this.#counts.get(key) ?? 0
  }
  add(key: string, difference: 1 | -1): void {
    const count = this.of(key) + difference
    this.total += difference
    if (count === 0) this.#counts.delete(key)
    else this.#counts.set(key, count)
  }
  entries(): Iterable<[string, number]> {
    return this.#counts
  }
}

/**
 * Connections that have sent nothing, by address, oldest first. Above the limit, a new connection evicts the oldest. A
 * real client sends its first bytes at once, so silent connections cannot block other clients of their address.
 */
class Silent {
  readonly #evictions = new Map<string, Set<() => void>>()
  readonly #limit: number
  constructor(limit: number) {
    this.#limit = limit
  }
  add(address: string, evict: () => void): void {
    const ofAddress = this.#evictions.get(address) ?? new Set()
    const [oldest] = ofAddress
    if (oldest !== undefined && ofAddress.size >= this.#limit) {
      this.delete(address, oldest)
      oldest()
    }
    this.#evictions.set(address, ofAddress.add(evict))
  }
  delete(address: string, evict: () => void): void {
    const ofAddress = this.#evictions.get(address)
    ofAddress?.delete(evict)
    if (ofAddress?.size === 0) this.#evictions.delete(address)
  }
}

export function createLogins(options: Partial<LoginLimits> = {}): Logins {
  const slots = new LoginSlots({ ...loginLimits, ...options })
  return {
    arrive: (port, address, evict) => new PendingLogin(slots, port, address, evict),
    count: () => slots.count(),
    countByPort: () => slots.countByPort(),
  }
}

/** The slots for logins, the queues for them, and the silent connections. */
class LoginSlots {
  readonly limits: LoginLimits
  readonly #silent: Silent
  readonly #silentOf = new Counter()
  readonly #waiting = new Counter()
  readonly #waitingInAll = new Counter()
  readonly #ofAddress = new Counter()
  readonly #ofRoute = new Counter()
  readonly #queues = new Map<number, Set<PendingLogin>>()

  constructor(limits: LoginLimits) {
    this.limits = limits
    this.#silent = new Silent(limits.silentPerAddress)
  }

  addSilent({ key, address, evict }: PendingLogin): void {
    this.#silentOf.add(key, 1)
    this.#silent.add(address, evict)
  }

  removeSilent({ key, address, evict }: PendingLogin): void {
    this.#silentOf.add(key, -1)
    this.#silent.delete(address, evict)
  }

  mayWait({ key, address }: PendingLogin): boolean {
    const { waitingPerAddress, waitingPerAddressInAll } = this.limits
    return this.#waiting.of(key) < waitingPerAddress && this.#waitingInAll.of(address) < waitingPerAddressInAll
  }

  countWaiting({ key, address }: PendingLogin, difference: 1 | -1): void {
    this.#waiting.add(key, difference)
    this.#waitingInAll.add(address, difference)
  }

  enqueue(login: PendingLogin): void {
    const queue = this.#queues.get(login.port) ?? new Set()
    this.#queues.set(login.port, queue.add(login))
    this.#serve(login.port)
  }

  dequeue(login: PendingLogin): void {
    this.#queues.get(login.port)?.delete(login)
  }

  take({ key, port }: PendingLogin): void {
    this.#ofAddress.add(key, 1)
    this.#ofRoute.add(`${port}`, 1)
  }

  free({ key, port }: PendingLogin): void {
    this.#ofAddress.add(key, -1)
    this.#ofRoute.add(`${port}`, -1)
    this.#serve(port)
  }

  count(): LoginCount {
    return { underway: this.#ofRoute.total, waiting: this.#waiting.total + this.#silentOf.total }
  }

  countByPort(): LoginCounts {
    const counts = new Map<number, LoginCount>()
    const add = (counter: Counter, which: keyof LoginCount) => {
      for (const [key, count] of counter.entries()) {
        const port = Number.parseInt(key, 10)
        const before = counts.get(port) ?? { underway: 0, waiting: 0 }
        counts.set(port, { ...before, [which]: before[which] + count })
      }
    }
    add(this.#ofRoute, 'underway')
    add(this.#waiting, 'waiting')
    add(this.#silentOf, 'waiting')
    return counts
  }

  /** Starts the waiting logins of a route for which a slot is free, in their order. */
  #serve(port: number): void {
    const queue = this.#queues.get(port)
    for (const login of queue ?? []) if (this.#hasSlot(login)) login.start()
    if (queue?.size === 0) this.#queues.delete(port)
  }

  #hasSlot({ key, port }: PendingLogin): boolean {
    const { perAddress, perRoute, reservedPerRoute } = this.limits
    const own = this.#ofAddress.of(key)
    const slots = own === 0 ? perRoute : perRoute - reservedPerRoute
    return own < perAddress && this.#ofRoute.of(`${port}`) < slots
  }
}

class PendingLogin implements Login {
  readonly port: number
  readonly address: string
  readonly key: string
  readonly evict: () => void
  readonly #slots: LoginSlots
  #state: 'silent' | 'waiting' | 'underway' | 'over' = 'silent'
  #timer: NodeJS.Timeout | undefined
  /** Resolves `begin`. Set only while the login is in the queue. */
  #answer: ((inTime: boolean) => void) | undefined

  constructor(slots: LoginSlots, port: number, address: string, evict: () => void) {
    this.#slots = slots
    this.port = port
    this.address = address
    this.key = `${port} ${address}`
    this.evict = evict
    slots.addSilent(this)
  }

  speak(): boolean {
    if (this.#state !== 'silent') return this.#state !== 'over'
    if (!this.#slots.mayWait(this)) {
      this.end()
      return false
    }
    this.#slots.removeSilent(this)
    this.#state = 'waiting'
    this.#slots.countWaiting(this, 1)
    return true
  }

  begin(): Promise<boolean> {
    return new Promise(resolve => {
      if (this.#state !== 'waiting') return resolve(false)
      this.#answer = resolve
      this.#timer = setTimeout(this.end, this.#slots.limits.waitMs)
      this.#slots.enqueue(this)
    })
  }

  /** Takes a slot and leaves the queue. */
  start(): void {
    clearTimeout(this.#timer)
    this.#slots.dequeue(this)
    this.#state = 'underway'
    this.#slots.countWaiting(this, -1)
    this.#slots.take(this)
    this.#timer = setTimeout(this.end, this.#slots.limits.slotMs)
    this.#timer.unref()
    this.#answer?.(true)
  }

  readonly end = (): void => {
    clearTimeout(this.#timer)
    const before = this.#state
    this.#state = 'over'
    if (before === 'silent') this.#slots.removeSilent(this)
    if (before === 'waiting') {
      this.#slots.countWaiting(this, -1)
      this.#slots.dequeue(this)
      this.#answer?.(false)
    }
    if (before === 'underway') this.#slots.free(this)
  }
}

/** Ends a login once the target has accepted the client, or either side has closed. */
export function watchLogin(client: Socket, target: Socket, login: Login): void {
  const progress = new LoginProgress()
  const ended = (): void => {
    client.off('data', onClient).off('close', ended)
    target.off('data', onTarget).off('end', ended).off('close', ended)
    login.end()
  }
  const onClient = (bytes: Buffer): void => progress.client(bytes)
  const onTarget = (bytes: Buffer): void => {
    progress.target(bytes)
    if (progress.isOver) ended()
  }
  client.on('data', onClient).on('close', ended)
  // A target that has closed its side has no session in Postgres.
  target.on('data', onTarget).on('end', ended).on('close', ended)
}
