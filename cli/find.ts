/** Finds databases, branches and backups by the names that users type. */

import { escapeControls } from '../values/escape.ts'
import type { Client } from './api/client.ts'
import type { Backup, Branch, Database } from './api/shapes.ts'
import { NotFound, UsageError } from './errors.ts'

/** The maximum number of names in an error. */
const listed = 10

type What = 'database' | 'branch' | 'backup'
const plurals = { database: 'databases', branch: 'branches', backup: 'backups' } as const
type Named = { id: string; name: string; display_name?: string | null | undefined }

/**
 * Finds an object by its name or id, and a branch also by its display name. `owner`: the owner of the objects, for the
 * error message.
 * @throws NotFound if no object has that name, UsageError if several objects have that name
 */
function pick<T extends Named>(what: What, wanted: string, all: readonly T[], owner: string): T {
  const exact = all.filter(({ id, name }) => name === wanted || id === wanted)
  // Several branches can have the same display name.
  const byDisplayName = what === 'branch' ? all.filter(one => one.display_name === wanted) : []
  const candidates = exact.length > 0 ? exact : byDisplayName
  const [found, ...others] = candidates
  const quoted = JSON.stringify(wanted)
  if (found === undefined) {
    const known = all.length === 0 ? `: ${owner} has none` : `; known ${plurals[what]}: ${names(all)}`
    throw new NotFound(`there is no ${what} ${quoted}${known}`)
  }
  if (others.length === 0) return found
  const text = joined(candidates.map(({ id, name }) => `${escapeControls(name)} (id ${id})`))
  const kind = exact.length > 0 ? 'name' : 'display name'
  throw new UsageError(
    `${owner} has ${candidates.length} ${plurals[what]} with the ${kind} ${quoted}: ${text}; use ${exact.length > 0 ? 'an' : 'a name or'} id`,
  )
}

const names = (all: readonly Named[]): string => joined(all.map(({ name }) => escapeControls(name)))

function joined(all: readonly string[]): string {
  const shown = all.slice(0, listed)
  const more = all.length - shown.length
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

export const findDatabase = async (client: Client, name: string): Promise<Database> =>
  pick('database', name, await client.list(), 'the account')

export const findBranch = async (client: Client, database: Named, name: string): Promise<Branch> =>
  pick('branch', name, await client.branches(database.id), escapeControls(database.name))

export const findBackup = async (client: Client, name: string, databaseId?: string): Promise<Backup> =>
  pick('backup', name, await client.backups(databaseId), databaseId === undefined ? 'the account' : 'the database')
