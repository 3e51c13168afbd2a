/**
 * Connections that have not logged in: few at once of one address and of one database reach Postgres, the others wait
 * their turn for some seconds. So who opens connections and says nothing holds a few places for as long as Postgres lets
 * nobody wait (authentication_timeout), and a pool that opens all of its connections at once gets all of them. The last
 * places of a database are for addresses that have none, so that two that say nothing do not hold all.
 */
import type { Socket } from 'node:net'
import { LoginProgress } from './login-progress.ts'

export type LoginLimits = {
  /** Connections of one address to one route that log in at once, and of all addresses. */
  perAddress: number
  perRoute: number
  /** Of those of a route the last so many are for addresses that have none yet. */
  forNewcomers: number
  /** Connections of one address to one route that wait for their turn. */
  waitingPerAddress: number
  /** The same of one address to all routes together. */
  waitingPerAddressInAll: number
  /** Connections of one address, to all routes together, that have sent nothing yet. */
  silentPerAddress: number
  /** How long one waits for its turn, in milliseconds. */
  waitMs: number
  /** After so long a connection that still is open has logged in, as Postgres ends the others: 10 s, and what it takes. */
  holdMs: number
}

export const loginLimits: LoginLimits = {
  perAddress: 6,
  perRoute: 12,
  forNewcomers: 4,
  waitingPerAddress: 250,
  waitingPerAddressInAll: 1_000,
  silentPerAddress: 500,
  waitMs: 8_000,
  holdMs: 12_000,
}

/** One connection's way from its arrival to its login. */
export type Login = {
  /** It has sent its first bytes and waits for its turn from now on. False where too many of its address wait. */
  speak(): boolean
  /** Resolves to whether its turn came in time. */
  begin(): Promise<boolean>
  /** It has logged in, or is over. */
  end(): void
}

/** Connections that are logging in, and that have not begun to: they are silent or wait for their turn. */
export type LoginCount = { underway: number; waiting: number }
/** By the routed port; of ports without any there is none. */
export type LoginCounts = ReadonlyMap<number, LoginCount>

type Logins = {
  /** `evict` closes the connection: too many of its address are silent, and it has been silent the longest. */
  arrive(port: number, address: string, evict: () => void): Login
  count(): LoginCount
  countByPort(): LoginCounts
}

/** How many there are of each key. */
class Tally {
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
 * Connections that have sent nothing, by address, the oldest first. One more evicts the oldest: a client that means to
 * log in sends its first bytes at once, so silent ones cannot keep its address out.
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

type Waiter = { key: string; start: () => void }

export function createLogins(options: Partial<LoginLimits> = {}): Logins {
  const limits = { ...loginLimits, ...options }
  const silent = new Silent(limits.silentPerAddress)
  const silentOf = new Tally()
  const waiting = new Tally()
  const waitingInAll = new Tally()
  const ofAddress = new Tally()
  const ofRoute = new Tally()
  const queues = new Map<number, Set<Waiter>>()

  const hasRoom = (port: number, key: string): boolean => {
    const own = ofAddress.of(key)
    const places = own === 0 ? limits.perRoute : limits.perRoute - limits.forNewcomers
    return own < limits.perAddress && ofRoute.of(`${port}`) < places
  }

  /** Whoever came first and may, begins. */
  const serve = (port: number): void => {
    const queue = queues.get(port)
    for (const waiter of queue ?? []) if (hasRoom(port, waiter.key)) waiter.start()
    if (queue?.size === 0) queues.delete(port)
  }

  const enter = (port: number, waiter: Waiter): void => {
    const queue = queues.get(port) ?? new Set()
    queues.set(port, queue.add(waiter))
    serve(port)
  }

  return {
    arrive: (port, address, evict) => {
      const key = `${port} ${address}`
      let state: 'silent' | 'waiting' | 'underway' | 'over' = 'silent'
      let timer: NodeJS.Timeout | undefined
      let leave = () => {}
      silentOf.add(key, 1)
      silent.add(address, evict)

      const count = (difference: 1 | -1): void => {
        waiting.add(key, difference)
        waitingInAll.add(address, difference)
      }
      const endSilence = (): void => {
        silentOf.add(key, -1)
        silent.delete(address, evict)
      }
      const end = (): void => {
        clearTimeout(timer)
        const before = state
        state = 'over'
        if (before === 'silent') endSilence()
        if (before === 'waiting') {
          count(-1)
          leave()
        }
        if (before !== 'underway') return
        ofAddress.add(key, -1)
        ofRoute.add(`${port}`, -1)
        serve(port)
      }
      const speak = (): boolean => {
        if (state !== 'silent') return state !== 'over'
        const hasPlace =
          waiting.of(key) < limits.waitingPerAddress && waitingInAll.of(address) < limits.waitingPerAddressInAll
        if (!hasPlace) {
          end()
          return false
        }
        endSilence()
        state = 'waiting'
        count(1)
        return true
      }
      const begin = (): Promise<boolean> =>
        new Promise(resolve => {
          if (state !== 'waiting') return resolve(false)
          const start = (): void => {
            clearTimeout(timer)
            queues.get(port)?.delete(waiter)
            state = 'underway'
            count(-1)
            ofAddress.add(key, 1)
            ofRoute.add(`${port}`, 1)
            timer = setTimeout(end, limits.holdMs)
            timer.unref()
            resolve(true)
          }
          const waiter: Waiter = { key, start }
          leave = () => {
            queues.get(port)?.delete(waiter)
            resolve(false)
          }
          timer = setTimeout(end, limits.waitMs)
          enter(port, waiter)
        })
      return { speak, begin, end }
    },
    count: () => ({ underway: ofRoute.total, waiting: waiting.total + silentOf.total }),
    countByPort: () => {
      const counts = new Map<number, LoginCount>()
      const add = (tally: Tally, which: keyof LoginCount) => {
        for (const [key, count] of tally.entries()) {
          const port = Number.parseInt(key, 10)
          const before = counts.get(port) ?? { underway: 0, waiting: 0 }
          counts.set(port, { ...before, [which]: before[which] + count })
        }
      }
      add(ofRoute, 'underway')
      add(waiting, 'waiting')
      add(silentOf, 'waiting')
      return counts
    },
  }
}

/** Ends a login once the target has let the client in, or either side is over. */
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
  // A target that has said its last word has no place for it any more.
  target.on('data', onTarget).on('end', ended).on('close', ended)
}
