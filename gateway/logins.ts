/**
 * Connections that have not logged in: few at once of one address and of one database reach Postgres, the others wait
 * their turn for some seconds. So who opens connections and says nothing holds a few places for as long as Postgres lets
 * nobody wait (authentication_timeout), and a pool that opens all of its connections at once gets all of them.
 *
 * TLS goes through, so a login is told by its turns: each time the target speaks after the client did. Logging in by
 * password takes five (SSLRequest, handshake, and three of SCRAM), four where the client begins with TLS.
 */
import type { Socket } from 'node:net'

export type LoginLimits = {
  /** Connections of one address to one route that log in at once, and of all addresses. */
  perAddress: number
  perRoute: number
  /** Connections of one address to one route that have not begun to: they said nothing yet, or wait for their turn. */
  waitingPerAddress: number
  /** How long one waits for its turn, in milliseconds. */
  waitMs: number
  /** After so long a connection that still is open has logged in, as Postgres ends the others: 10 s, and what it takes. */
  holdMs: number
}

export const loginLimits: LoginLimits = {
  perAddress: 6,
  perRoute: 12,
  waitingPerAddress: 250,
  waitMs: 8_000,
  holdMs: 12_000,
}

/** Turns of a login that asks for TLS first; of one that begins with TLS there is one less. */
export const turnsOfLogin = 5

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

export type Logins = {
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
  const ofAddress = new Tally()
  const ofRoute = new Tally()
  const queues = new Map<number, Set<Waiter>>()

  const hasRoom = (port: number, key: string): boolean =>
    ofRoute.of(`${port}`) < limits.perRoute && ofAddress.of(key) < limits.perAddress

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
      waiting.add(key, 1)
      let state: 'arrived' | 'underway' | 'over' = 'arrived'
      let timer: NodeJS.Timeout | undefined
      let leave = () => {}

      const end = (): void => {
        clearTimeout(timer)
        const before = state
        state = 'over'
        if (before === 'arrived') {
          waiting.add(key, -1)
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
            waiting.add(key, -1)
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

/** Whoever asks for TLS sends these many bytes, and waits for the answer. */
const tlsRequestBytes = 8

/** Ends a login once its turns are over, or either side is. */
export function watchLogin(client: Socket, target: Socket, login: Login): void {
  // Nothing of it has been read yet.
  const turns = client.readableLength === tlsRequestBytes ? turnsOfLogin : turnsOfLogin - 1
  let taken = 0
  let clientSpoke = false
  const ended = (): void => {
    client.off('data', onClient).off('close', ended)
    target.off('data', onTarget).off('end', ended).off('close', ended)
    login.end()
  }
  const onClient = (): void => {
    clientSpoke = true
  }
  const onTarget = (): void => {
    if (!clientSpoke) return
    clientSpoke = false
    if (++taken >= turns) ended()
  }
  client.on('data', onClient).on('close', ended)
  // A target that has said its last word has no place for it any more.
  target.on('data', onTarget).on('end', ended).on('close', ended)
}
