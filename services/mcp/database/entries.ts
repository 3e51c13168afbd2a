/**
 * Which of the configured databases a caller may use, and which database its session has selected. The default is the
 * first database that the caller may use. Selections are stored by session, and their number is limited. A selection of
 * a database that no longer exists is ignored.
 */
import { LRUCache } from 'lru-cache'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { Caller } from '../core/caller.ts'

type Selection = 'selected' | 'unknown' | 'forbidden'

export type DatabaseEntries = {
  available(caller: Caller): readonly DatabaseSettings[]
  current(caller: Caller): DatabaseSettings | undefined
  select(caller: Caller, name: string): Selection
  /** Whether any database is writable. */
  hasWritable(): boolean
}

const maximumSelections = 10_000

const mayUse = ({ databases, kind, username }: Caller, { name, availableToUsers }: DatabaseSettings): boolean => {
  if (databases !== undefined && !databases.includes(name)) return false
  if (availableToUsers === undefined || kind === 'anyone' || kind === 'token') return true
  return username !== undefined && availableToUsers.includes(username)
}

export function createEntries(databases: () => readonly DatabaseSettings[]): DatabaseEntries {
  const selected = new LRUCache<string, string>({ maxSize: maximumSelections, sizeCalculation: () => 1 })
  const available = (caller: Caller) => databases().filter(database => mayUse(caller, database))
  return {
    available,
    current: caller => {
      const all = available(caller)
      const name = selected.get(caller.session)
      return all.find(database => database.name === name) ?? all[0]
    },
    select: (caller, name) => {
      const found = databases().find(database => database.name === name)
      if (found === undefined) return 'unknown'
      if (!mayUse(caller, found)) return 'forbidden'
      selected.set(caller.session, name)
      return 'selected'
    },
    hasWritable: () => databases().some(({ allowWrites }) => allowWrites),
  }
}
