/**
 * The agent's response to `/log?since=MS&until=MS&most=N`. Requests are handled one at a time, so that several clients
 * use no more memory than one.
 */
import { mostLogEntries } from '../contract.ts'
import type { Route } from '../server.ts'
import { readLog } from './read.ts'

/** A query parameter as an integer; undefined for other values. */
function numberIn(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name) ?? ''
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

export function logRoute(path: string, id: string): Route {
  let last: Promise<unknown> = Promise.resolve()
  return {
    for: ['api'],
    async answer(query) {
      const requested = {
        sinceMs: numberIn(query, 'since') ?? Number.NEGATIVE_INFINITY,
        untilMs: numberIn(query, 'until') ?? Number.POSITIVE_INFINITY,
        most: Math.min(mostLogEntries, numberIn(query, 'most') ?? mostLogEntries),
      }
      const found = last.then(() => readLog(path, id, requested))
      last = found.catch(() => {})
      return { contentType: 'application/json', body: JSON.stringify({ id, ...(await found) }) }
    },
  }
}
