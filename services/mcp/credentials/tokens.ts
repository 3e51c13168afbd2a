/** API tokens as callers, found by the digest of what was sent. */

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

/** Callers by what they send; undefined for what is unknown or has expired. */
type TokenIndex = (token: string, now: number) => Caller | undefined

/** Made once for what a file holds, so that a request costs one digest. */
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

/** Those that have not expired, or the very same where none has. */
export function withoutExpired(entries: Entries<TokenEntry>, now: number): Entries<TokenEntry> {
  const left = [...entries].filter(([, entry]) => !isExpired(entry, now))
  return left.length === entries.size ? entries : new Map(left)
}
