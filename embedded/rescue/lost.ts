/**
 * Detects an empty store next to volumes with data. Then the store is lost, and a start must not create a new
 * installation.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { EmbeddedError } from '../errors.ts'

const entriesOf = (path: string): string[] => (existsSync(path) ? readdirSync(path) : [])

/** Files that exist even if nothing was ever written. */
const locks = new Set(['lock', 'owner', 'lock-journal'])

/** @throws EmbeddedError that says what is missing and how to continue */
export function requireStore({ store, runtime }: { store: string; runtime: string }): void {
  if (entriesOf(store).some(name => !locks.has(name))) return
  const found = ['volumes', 'snapshots'].flatMap(kind =>
    entriesOf(join(runtime, kind)).flatMap(namespace =>
      entriesOf(join(runtime, kind, namespace)).map(name => join(runtime, kind, namespace, name)),
    ),
  )
  const pool = join(runtime, 'pool.xfs')
  const [first] = [...found, ...(existsSync(pool) ? [pool] : [])]
  if (first === undefined) return
  throw new EmbeddedError(
    `${store} is empty, while there are data of databases, such as ${first}: the store is missing. Nothing was changed. Put it back from a copy; without a copy, \`espalier rescue\` creates the databases again from their volumes. For a new installation set ESPALIER_HOME to another directory`,
  )
}
