/** Finds callers by the digest of their API token. */

import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'
import type { Caller } from '../core/caller.ts'
import type { Entries } from './document.ts'
import { isExpired, type TokenEntry } from './files.ts'
import { digestOf, isSameDigest } from './secrets.ts'

const allScopes: ReadonlySet<Scope> = new Set(scopes)

const callerOf = (id: string, { database }: TokenEntry): Caller => ({
  kind: 'token',
  principal: `token:${id}`,
  username: undefined,
  databases: database === undefined ? undefined : [database],
  scopes: allScopes,
  session: `token:${id}`,
})

type Known = { readonly entry: TokenEntry; readonly caller: Caller }

/** Returns the caller of a token; undefined if the token is unknown or expired. */
type TokenIndex = (token: string, now: number) => Caller | undefined

/** Runs once per file content, so that a request computes only one digest. */
export function indexTokens(entries: Entries<TokenEntry>): TokenIndex {
  const byDigest = new Map<string, Known>(
    Array.from(entries, ([id, entry]) => [entry.hash, { entry, caller: callerOf(id, entry) }]),
  )
  return (token, now) => {
    const digest = digestOf(token)
    const known = byDigest.get(digest)
    if (known === undefined || !isSameDigest(known.entry.hash, digest) || isExpired(known.entry, now)) return undefined
    return known.caller
  }
}

/** Returns the entries that have not expired. Returns the same object if no entry has expired. */
export function withoutExpired(entries: Entries<TokenEntry>, now: number): Entries<TokenEntry> {
  const valid = [...entries].filter(([, entry]) => !isExpired(entry, now))
  return valid.length === entries.size ? entries : new Map(valid)
}
