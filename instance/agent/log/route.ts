/** The agent's answer to `/log?since=MS&until=MS&most=N`: one after the other, so that several askers take no more than one. */
import { mostLogEntries } from '../contract.ts'
import type { Route } from '../server.ts'
import { readLog } from './read.ts'

/** A whole number of a query; undefined for none. */
function numberIn(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name) ?? ''
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

export function logRoute(path: string, id: string): Route {
  let last: Promise<unknown> = Promise.resolve()
  return {
    for: ['api'],
    async answer(query) {
      const asked = {
        sinceMs: numberIn(query, 'since') ?? Number.NEGATIVE_INFINITY,
        untilMs: numberIn(query, 'until') ?? Number.POSITIVE_INFINITY,
        most: Math.min(mostLogEntries, numberIn(query, 'most') ?? mostLogEntries),
      }
      const found = last.then(() => readLog(path, id, asked))
      last = found.catch(() => {})
      return { contentType: 'application/json', body: JSON.stringify({ id, ...(await found) }) }
    },
  }
}
