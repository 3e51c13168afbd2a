/**
 * Sessions of users who have logged in: one token each, valid for 24 hours, kept as a digest in memory only. Their
 * number is limited per user and in total; the oldest session is evicted.
 */
import { LRUCache } from 'lru-cache'
import type { UserEntry } from './files.ts'
import { digestOf, newSessionToken } from './secrets.ts'

const lifetimeMs = 86_400_000
const mostSessions = 20_000
const mostOfOneUser = 100

export type Session = {
  readonly username: string
  /** Unique identifier that reveals nothing of the token. */
  readonly id: string
  readonly expiresAt: number
  /** The user's data at login, used when the user is no longer in the file. */
  readonly user: UserEntry
}

export type Sessions = {
  begin(username: string, user: UserEntry): { readonly token: string; readonly expiresAt: number }
  /** undefined if the token is unknown or expired. */
  find(token: string): Session | undefined
}

/** @param nameOf makes the user's token from one without padding; a token can have padding only at its end */
export function createSessions(now: () => number, nameOf?: (random: string) => string): Sessions {
  const byDigest = new LRUCache<string, Session>({
    // With `max`, memory for all sessions would be allocated at once.
    maxSize: mostSessions,
    sizeCalculation: () => 1,
    dispose: ({ username }, digest) => forget(username, digest),
  })
  const byUser = new Map<string, Set<string>>()

  function forget(username: string, digest: string): void {
    const own = byUser.get(username)
    own?.delete(digest)
    if (own?.size === 0) byUser.delete(username)
  }

  function evictOldest(own: Set<string>): void {
    for (const digest of [...own]) {
      const session = byDigest.peek(digest)
      if (session === undefined || session.expiresAt <= now()) byDigest.delete(digest)
    }
    const [first] = own
    if (own.size >= mostOfOneUser && first !== undefined) byDigest.delete(first)
  }

  return {
    begin(username, user) {
      const random = newSessionToken()
      const token = nameOf === undefined ? random : nameOf(random.replace(/=+$/, ''))
      const digest = digestOf(token)
      const expiresAt = now() + lifetimeMs
      evictOldest(byUser.get(username) ?? new Set())
      const own = byUser.get(username) ?? new Set<string>()
      byUser.set(username, own.add(digest))
      byDigest.set(digest, { username, id: digestOf(digest).slice(0, 32), expiresAt, user })
      return { token, expiresAt }
    },
    find(token) {
      const digest = digestOf(token)
      // Ordered by creation, not by use: the oldest is evicted first.
      const session = byDigest.peek(digest)
      if (session === undefined) return undefined
      if (session.expiresAt > now()) return session
      byDigest.delete(digest)
      return undefined
    },
  }
}
