/**
 * Keeps named queries in the browser's storage, separately for each database. A query can contain secrets that the user
 * typed, so the page shows where the queries are kept.
 */
import { useSyncExternalStore } from 'react'

type SavedQuery = { name: string; text: string }

export const longestName = 80
const mostQueries = 100
const longestText = 65_536

const isQuery = (value: unknown): value is SavedQuery =>
  typeof value === 'object' &&
  value !== null &&
  'name' in value &&
  'text' in value &&
  typeof value.name === 'string' &&
  typeof value.text === 'string'

/** Parses the stored queries. Ignores invalid content, because every page of this origin can write to the storage. */
export function queriesIn(stored: string | null): SavedQuery[] {
  try {
    const parsed: unknown = JSON.parse(stored ?? '[]')
    if (!Array.isArray(parsed)) return []
    return parsed
      .filter(isQuery)
      .slice(0, mostQueries)
      .map(({ name, text }) => ({ name, text }))
  } catch {
    return []
  }
}

/**
 * Adds a query, or replaces the query with the same name. Returns the queries, sorted by name. Returns undefined if
 * there are too many queries, or if the text is too long.
 */
export function withQuery(queries: readonly SavedQuery[], query: SavedQuery): SavedQuery[] | undefined {
  const others = queries.filter(({ name }) => name !== query.name)
  if (others.length >= mostQueries || query.text.length > longestText) return undefined
  return [...others, query].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Returns all queries as one SQL file. A comment above each query contains its name. */
export const fileOf = (queries: readonly SavedQuery[]): string =>
  queries.map(({ name, text }) => `-- ${name.replaceAll(/\s+/g, ' ')}\n${text.trimEnd()}\n`).join('\n')

const keyOf = (database: string): string => `espalier-queries ${database}`
const listeners = new Set<() => void>()

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  addEventListener('storage', listener)
  return () => {
    listeners.delete(listener)
    removeEventListener('storage', listener)
  }
}

function stored(database: string): string | null {
  try {
    return localStorage.getItem(keyOf(database))
  } catch {
    return null
  }
}

type SavedQueries = {
  queries: SavedQuery[]
  /** Returns false if the query was not saved: it exceeds a limit, or the storage is full or disabled. */
  save: (query: SavedQuery) => boolean
  remove: (name: string) => void
}

export function useSavedQueries(database: string): SavedQueries {
  const text = useSyncExternalStore(subscribe, () => stored(database))
  const queries = queriesIn(text)
  const write = (next: readonly SavedQuery[]): boolean => {
    try {
      if (next.length === 0) localStorage.removeItem(keyOf(database))
      else localStorage.setItem(keyOf(database), JSON.stringify(next))
    } catch {
      return false
    }
    for (const listener of listeners) listener()
    return true
  }
  return {
    queries,
    save: query => {
      const next = withQuery(queries, query)
      return next !== undefined && write(next)
    },
    remove: name => void write(queries.filter(one => one.name !== name)),
  }
}
