/** API tokens as callers, looked up by the digest of the token. */

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

/** Finds the caller of a token; undefined if it is unknown or expired. */
type TokenIndex = (token: string, now: number) => Caller | undefined

/** Prepared once per file content, so that a request costs one digest. */
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

/** Entries that have not expired, or the same object if none has. */
export function withoutExpired(entries: Entries<TokenEntry>, now: number): Entries<TokenEntry> {
  const valid = [...entries].filter(([, entry]) => !isExpired(entry, now))
  return valid.length === entries.size ? entries : new Map(valid)
}
