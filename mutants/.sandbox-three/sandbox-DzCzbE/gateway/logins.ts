/**
 * Connections that have not logged in: few at once of one address and of one database reach Postgres, the others wait
 * their turn for some seconds. So who opens connections and says nothing holds a few places for as long as Postgres lets
 * nobody wait (authentication_timeout), and a pool that opens all of its connections at once gets all of them. The last
 * places of a database are for addresses that have none, so that two that say nothing do not hold all.
 */
// @ts-nocheck

import type { Socket } from 'node:net'
import { LoginProgress } from './login-progress.ts'

export type LoginLimits = {
  /** Connections of one address to one route that log in at once, and of all addresses. */
  perAddress: number
  perRoute: number
  /** Of those of a route the last so many are for addresses that have none yet. */
  forNewcomers: number
  /** Connections of one address to one route that have not begun to: they said nothing yet, or wait for their turn. */
  waitingPerAddress: number
  /** The same of one address to all routes together. */
  waitingPerAddressInAll: number
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
  waitMs: 8_000,
  holdMs: 12_000,
}

/** One connection's way from its arrival to its login. */
export type Login = {
  /** Resolves to whether its turn came in time. */
  begin(): Promise<boolean>
  /** It has logged in, or is over. */
  end(): void
}

/** Connections that are logging in, and that have not begun to. */
export type LoginCount = { underway: number; waiting: number }
/** By the routed port; of ports without any there is none. */
export type LoginCounts = ReadonlyMap<number, LoginCount>

type Logins = {
  /** Undefined where the address has too many that have not begun. */
  arrive(port: number, address: string): Login | undefined
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

type Waiter = { key: string; start: () => void }

export function createLogins(options: Partial<LoginLimits> = {}): Logins {
  const limits = { ...loginLimits, ...options }
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
    arrive: (port, address) => {
      const key = `${port} ${address}`
      if (waiting.of(key) >= limits.waitingPerAddress) return undefined
      if (waitingInAll.of(address) >= limits.waitingPerAddressInAll) return undefined
      const count = (difference: 1 | -1): void => {
        waiting.add(key, difference)
        waitingInAll.add(address, difference)
      }
      count(1)
      let state: 'arrived' | 'underway' | 'over' = 'arrived'
      let timer: NodeJS.Timeout | undefined
      let leave = () => {}

      const end = (): void => {
        clearTimeout(timer)
        const before = state
        state = 'over'
        if (before === 'arrived') {
          count(-1)
          leave()
        }
        if (before !== 'underway') return
        ofAddress.add(key, -1)
        ofRoute.add(`${port}`, -1)
        serve(port)
      }
      const begin = (): Promise<boolean> =>
        new Promise(resolve => {
          if (state !== 'arrived') return resolve(false)
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
      return { begin, end }
    },
    count: () => ({ underway: ofRoute.total, waiting: waiting.total }),
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
