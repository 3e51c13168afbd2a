/** The usual clients of services, one of each kind. Each client repeatedly sends a request. */
import { PostgrestClient } from '@supabase/postgrest-js'
import type { Fetch } from '../https-fetch.ts'
import { connectTools, isAway, load, requestsTo, type Served, serviceOf, ToolError } from '../service-load.ts'
import { isSessionLost, olderClient } from './mcp-sessions.ts'

/** The service answered 503 with Retry-After, however the client reported this. */
class Away extends Error {}

/**
 * An error of a `send` call becomes an Away if a response to that call was 503 with Retry-After. `method`: the method
 * of requests that are calls. The older SDK also opens its event stream by GET at the same time.
 */
function watched(fetching: Fetch, method?: 'POST') {
  let away = 0
  return {
    away: () => away,
    fetching: (async (input, init) => {
      const answer = await fetching(input, init)
      const isCall = method === undefined || init?.method === method
      if (isCall && answer.status === 503 && answer.headers.has('retry-after')) away++
      return answer
    }) satisfies Fetch,
    async call(send: () => Promise<unknown>): Promise<void> {
      const before = away
      try {
        await send()
      } catch (error) {
        if (away === before) throw error
        throw new Away(String(error), { cause: error })
      }
    },
  }
}

/** The allowed results of a service's client while its Postgres is unavailable. */
const isUnavailable = (error: unknown): boolean => error instanceof Away || isAway(error)

const sql = 'SELECT count(*) FROM fruit'

export type Clients = Awaited<ReturnType<typeof clientsOf>>

/** The caller must close these clients. */
export async function clientsOf(database: Served, fetching: Fetch) {
  const newer = watched(fetching)
  const older = watched(fetching, 'POST')
  const table = watched(fetching)
  const tools = await connectTools(database, newer.fetching)
  const bridged = await olderClient(database, older.fetching)
  const rest = new PostgrestClient(serviceOf(database, 'rest').uri, { fetch: table.fetching })
  const calls = {
    'mcp by the newer SDK': () =>
      newer.call(async () => {
        const answer = await tools.callTool({ name: 'query_database', arguments: { query: sql } })
        const text = JSON.stringify(answer.content)
        if (answer.isError) throw new ToolError(text)
        if (!text.includes('20')) throw new Error(text)
      }),
    'mcp by the older SDK': () => older.call(bridged.call),
    'rest by postgrest-js': () =>
      table.call(async () => {
        const { data, error } = await rest.from('fruit').select('id').limit(3)
        if (error !== null || data.length !== 3) throw new Error(JSON.stringify(error ?? data))
      }),
    rag: async () => void (await requestsTo(database, fetching).rag()),
  }
  return {
    calls,
    /**
     * The number of `rest` responses with 503 and Retry-After. postgrest-js waits for that time and retries by itself.
     */
    restAway: table.away,
    async close() {
      await tools.close().catch(() => {})
      await bridged.close()
    },
  }
}

/** Cluster and clients share one machine: more requests would only slow down the test. */
const pauseMs = 100

/**
 * Loads all services at once. `mayBeAway`: Postgres becomes unavailable meanwhile. `mayEnd`: the pods and the bridge's
 * sessions may end, too.
 */
export const loadAll = ({ calls }: Clients, { mayBeAway = false, mayEnd = false } = {}) =>
  Object.entries(calls).map(([name, send]) =>
    load(name, send, error => (mayBeAway && isUnavailable(error)) || (mayEnd && isSessionLost(error)), pauseMs),
  )
