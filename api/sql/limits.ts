/** Limits how many connections an endpoint opens concurrently: per database, per account, and in this process. */
import { ApiError } from '../errors.ts'

const mostOfProcess = 8
export const mostOfDatabase = 4
/** An account gets at most half, rounded up, of the connections that other accounts do not use. */
const shareOfAccount = 2
/** The endpoint uses at most 1/10 of a database's connections, but at least one. */
const shareOfDatabase = 10

const retrySeconds = 1

const refusal = (message: string): ApiError =>
  new ApiError(429, message, { headers: { 'Retry-After': String(retrySeconds) } })

/** `connections`: how many connections the database's size allows. */
export const limitOfDatabase = (connections: number | undefined): number =>
  Math.max(1, Math.min(mostOfDatabase, Math.floor((connections ?? 0) / shareOfDatabase)))

type Slots = {
  /** Reserves a connection, and returns a function that releases it. @throws ApiError 429 */
  take(account: string, database: string, limit: number): () => void
  /** The number of connections that are reserved now. */
  readonly taken: number
}

/** `what`: the plural name of the requests in error messages. Each kind of request has its own limits. */
export function createSlots(what: string): Slots {
  const counts = new Map<string, number>()
  let taken = 0
  const countOf = (key: string): number => counts.get(key) ?? 0
  function add(key: string, change: 1 | -1): void {
    const remaining = countOf(key) + change
    if (remaining > 0) counts.set(key, remaining)
    else counts.delete(key)
  }
  return {
    take(account, database, limit) {
      const keys = [`account ${account}`, `database ${database}`]
      if (countOf(`database ${database}`) >= limit)
        throw refusal(
          `the database already runs ${limit} ${what}, which is its limit: wait until one ends, or cancel one`,
        )
      const own = countOf(`account ${account}`)
      const share = Math.ceil((mostOfProcess - (taken - own)) / shareOfAccount)
      if (own > 0 && own >= share)
        throw refusal(`the account already runs ${own} ${what}, which is its current limit: wait until one ends`)
      if (taken >= mostOfProcess) throw refusal(`too many ${what} run now: retry`)
      taken++
      for (const key of keys) add(key, 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        taken--
        for (const key of keys) add(key, -1)
      }
    },
    get taken() {
      return taken
    },
  }
}
